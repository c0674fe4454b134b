package dbfile

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
)

// The layout of bbolt's pages, version 2 of the format. Numbers are in the byte
// order of the machine that wrote the file; etcd runs on little-endian machines
// (and s390x, which kvd recognises and declines).
//
// Source: go.etcd.io/bbolt v1.5.0, internal/common/{types,page,meta,bucket}.go.
const (
	magic         = 0xED0CDAED // types.go, Magic
	formatVersion = 2          // types.go, Version

	pageHeaderSize   = 16 // page.go: id u64, flags u16, count u16, overflow u32
	elementSize      = 16 // page.go: branch pos u32, ksize u32, pgid u64; leaf flags u32, pos u32, ksize u32, vsize u32
	bucketHeaderSize = 16 // bucket.go: root u64, sequence u64
	metaSize         = 64 // meta.go: magic, version, pageSize, flags u32; root, sequence, freelist, pgid, txid, checksum u64
	metaSummed       = 56 // meta.go, Sum64: FNV-1a over what is before the checksum

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10

	flagBucketElement = 0x01 // of a leaf element: its value is a bucket

	// NoFreelist is the freelist page of files that store none, which is
	// normal for etcd (server/v3/storage/backend: NoFreelistSync).
	NoFreelist = ^uint64(0)

	minPageSize = 1024       // db.go, getPageSizeFromSecondMeta: 1024<<0 …
	maxPageSize = 1024 << 14 // … to 1024<<14

	// maxPageBytes is the longest page that is believed, with its overflow: far
	// above the largest request that etcd can be told to accept.
	maxPageBytes = 1 << 29

	// maxDepth is the deepest tree that is believed: with two keys per page,
	// which is bbolt's minimum, it would hold 2^64 of them.
	maxDepth = 64
)

func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// Header is what a file's meta page says about its pages.
type Header struct {
	PageSize  int    // bytes
	Pages     uint64 // the high-water mark: pages 0 … Pages-1 are in use or free
	TxID      uint64 // the transaction that wrote it
	Root      uint64 // page of the bucket of buckets
	Freelist  uint64 // page of the freelist, NoFreelist where there is none
	MetaPage  int    // 0 or 1, whichever is valid and newer
	OtherMeta string // what is wrong with the other one, empty if nothing is
	// AsSent says that the meta pages are as a server sends them in a snapshot: one
	// transaction twice, the second time with its number less one (WriteTo in bbolt's
	// tx.go). Who opens the file for writing writes that of an even number into page 0
	// (Meta.Write in internal/common/meta.go), which mostly changes that.
	AsSent bool
}

// parseMeta reads one meta page: b begins at the page's header. The string says
// what is wrong with it.
func parseMeta(b []byte) (Header, string) {
	if len(b) < pageHeaderSize+metaSize {
		return Header{}, "beyond the end of the file"
	}
	m := b[pageHeaderSize:]
	le := binary.LittleEndian
	switch got := le.Uint32(m); {
	case got == bits.ReverseBytes32(magic):
		return Header{}, "written on a big-endian machine"
	case got != magic:
		return Header{}, "no magic number"
	}
	if v := le.Uint32(m[4:]); v != formatVersion {
		return Header{}, "an unknown version of the page format"
	}
	sum := fnv.New64a()
	sum.Write(m[:metaSummed]) //nolint:errcheck // a hash never fails
	if sum.Sum64() != le.Uint64(m[56:]) {
		return Header{}, "wrong checksum"
	}
	h := Header{
		PageSize: int(le.Uint32(m[8:])), Root: le.Uint64(m[16:]), Freelist: le.Uint64(m[32:]),
		Pages: le.Uint64(m[40:]), TxID: le.Uint64(m[48:]),
	}
	if h.PageSize < minPageSize || h.PageSize > maxPageSize || bits.OnesCount(uint(h.PageSize)) != 1 {
		return Header{}, "an impossible page size"
	}
	if h.Root < 2 || h.Root >= h.Pages || h.Pages > 1<<48 {
		return Header{}, "page numbers that cannot be"
	}
	return h, ""
}

// findHeader reads both meta pages, as bbolt does: the newer one that is valid
// holds. Where the first is not valid the page size is unknown, and the second
// is looked for at every size there is.
func (f *File) findHeader() (Header, string) {
	first, firstBad := f.metaAt(0)
	if firstBad == "" {
		second, bad := f.metaAt(int64(first.PageSize))
		if bad == "" && second.PageSize != first.PageSize {
			bad = "another page size"
		}
		if bad == "" && second.TxID > first.TxID {
			second.MetaPage = 1
			return second, ""
		}
		twin := second
		twin.TxID++
		first.AsSent = bad == "" && twin == first
		first.OtherMeta = bad
		return first, ""
	}
	for size := int64(minPageSize); size <= maxPageSize; size <<= 1 {
		second, bad := f.metaAt(size)
		if bad == "" && int64(second.PageSize) == size {
			second.MetaPage, second.OtherMeta = 1, firstBad
			return second, ""
		}
	}
	return Header{}, firstBad
}

func (f *File) metaAt(offset int64) (Header, string) {
	var b [pageHeaderSize + metaSize]byte
	if offset+int64(len(b)) > f.size {
		return Header{}, "beyond the end of the file"
	}
	if _, err := f.r.ReadAt(b[:], offset); err != nil {
		return Header{}, err.Error()
	}
	return parseMeta(b[:])
}
