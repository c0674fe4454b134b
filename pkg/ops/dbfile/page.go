package dbfile

import (
	"encoding/binary"
	"fmt"
	"io"
)

// page is the bytes of one page with its overflow, from its header on, and what
// the header says. Everything in it has been checked against the length of b.
type page struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint32
	b        []byte
	base     int64 // where b begins in the file
	used     int64 // bytes up to the end of the last element
}

func (p *page) isLeaf() bool { return p.flags == flagLeaf }

// branchElement returns the lower bound and the page of child i.
func (p *page) branchElement(i int) (key []byte, child uint64) {
	at := pageHeaderSize + i*elementSize
	le := binary.LittleEndian
	from := at + int(le.Uint32(p.b[at:]))
	return p.b[from : from+int(le.Uint32(p.b[at+4:]))], le.Uint64(p.b[at+8:])
}

// leafElement returns record i. The slices are parts of the page.
func (p *page) leafElement(i int) (key, value []byte, bucket bool) {
	at := pageHeaderSize + i*elementSize
	le := binary.LittleEndian
	from := at + int(le.Uint32(p.b[at+4:]))
	mid := from + int(le.Uint32(p.b[at+8:]))
	return p.b[from:mid:mid], p.b[mid : mid+int(le.Uint32(p.b[at+12:]))], le.Uint32(p.b[at:])&flagBucketElement != 0
}

// valueOffset says where in the file the value of a leaf's record i begins.
func (p *page) valueOffset(i int) int64 {
	at := pageHeaderSize + i*elementSize
	le := binary.LittleEndian
	return p.base + int64(at) + int64(le.Uint32(p.b[at+4:])) + int64(le.Uint32(p.b[at+8:]))
}

func (p *page) elementOffset(i int) int64 { return p.base + int64(pageHeaderSize+i*elementSize) }

func parsePageHeader(b []byte) page {
	le := binary.LittleEndian
	return page{id: le.Uint64(b), flags: le.Uint16(b[8:]), count: int(le.Uint16(b[10:])), overflow: le.Uint32(b[12:])}
}

// checkElements checks the element table of a branch or leaf page, of which at
// least that table is in p.b, against a page of limit bytes. It returns how
// many bytes of the page are used.
func (p *page) checkElements(limit int64) (used int64, element int, bad string) {
	le := binary.LittleEndian
	table := int64(pageHeaderSize + p.count*elementSize)
	used = table
	for i := range p.count {
		at := pageHeaderSize + i*elementSize
		e := p.b[at:]
		pos, key, val := int64(le.Uint32(e)), int64(le.Uint32(e[4:])), int64(0)
		if p.isLeaf() {
			pos, key, val = int64(le.Uint32(e[4:])), int64(le.Uint32(e[8:])), int64(le.Uint32(e[12:]))
			if f := le.Uint32(e); f&^flagBucketElement != 0 {
				return 0, i, fmt.Sprintf("has unknown flags %#x", f)
			}
		}
		start := int64(at) + pos
		end := start + key + val
		switch {
		case key == 0:
			return 0, i, "has no key"
		case start < table:
			return 0, i, "overlaps the table of elements"
		case end > limit:
			return 0, i, fmt.Sprintf("ends at byte %d of a page of %d", end, limit)
		}
		used = max(used, end)
	}
	return used, -1, ""
}

// pager reads pages for one walk, neighbours together. It is not safe for
// concurrent use.
type pager struct {
	f      *File
	levels []readahead // one for each level of the tree, so that children do not displace their parents' neighbours
}

// readahead is a stretch of the file that was read in one go.
type readahead struct {
	start int64
	b     []byte
	big   []byte // for a page that is longer than what was read ahead
}

const (
	readaheadBytes = 256 << 10
	readaheadGap   = 16 // pages between two that are wanted, from which on they are read apart
)

// readaheadSize is how large a buffer for n bytes is made: small for the few pages
// of the upper levels, and else at once as large as it can become.
func readaheadSize(n int64) int64 {
	const small = 32 << 10
	if n <= small {
		return small
	}
	return max(n, readaheadBytes)
}

func (p *pager) level(depth int) *readahead {
	for len(p.levels) <= depth {
		p.levels = append(p.levels, readahead{})
	}
	return &p.levels[depth]
}

// ahead reads the page ids[0], and in one go with it those that follow in the
// file as in the tree. Errors are left to page, which reads again what is missing.
func (p *pager) ahead(depth int, ids []uint64) {
	size := int64(p.f.header.PageSize)
	l := p.level(depth)
	if start := int64(ids[0]) * size; start >= l.start && start+size <= l.start+int64(len(l.b)) {
		return
	}
	first, last := ids[0], ids[0]
	for _, id := range ids[1:] {
		if id <= last || id-last > readaheadGap || int64(id-first+1)*size > readaheadBytes {
			break
		}
		last = id
	}
	l.start, l.b = int64(first)*size, l.b[:0]
	n := min(int64(last-first+1)*size, p.f.size-l.start)
	if first >= p.f.header.Pages || n <= 0 {
		return
	}
	if int64(cap(l.b)) < n {
		l.b = make([]byte, readaheadSize(n))
	}
	got, err := p.f.r.ReadAt(l.b[:n], l.start)
	if err != nil && err != io.EOF { //nolint:errorlint // ReaderAt's contract
		got = 0
	}
	l.b = l.b[:got]
}

// page returns a branch or leaf page with its overflow, checked. Its bytes are
// valid until the next page of the same level is asked for.
func (p *pager) page(depth int, id uint64) (page, *Damage) {
	f, size := p.f, int64(p.f.header.PageSize)
	if id < 2 || id >= f.header.Pages {
		return page{}, &Damage{Class: DamagePointer, Page: id, Element: -1, Msg: fmt.Sprintf("points outside the pages of the file, which are 2 to %d", f.header.Pages-1)}
	}
	base := int64(id) * size
	bad := func(class, format string, args ...any) (page, *Damage) {
		return page{}, &Damage{Class: class, Page: id, Offset: base, Element: -1, Msg: fmt.Sprintf(format, args...)}
	}
	if base+size > f.size {
		return bad(DamageBeyondEnd, "the file ends at byte %d", f.size)
	}
	b, err := p.read(depth, base, size)
	if err != nil {
		return page{}, unreadable(id, base, err)
	}
	pg := parsePageHeader(b)
	pg.base = base
	length := (int64(pg.overflow) + 1) * size
	switch {
	case pg.id == 0 && pg.flags == 0 && pg.count == 0 && allZero(b):
		return bad(DamageZeroPage, "nothing but zeros")
	case pg.id != id:
		return bad(DamagePageID, "says that it is page %d", pg.id)
	case pg.flags != flagBranch && pg.flags != flagLeaf:
		return bad(DamagePageType, "is a %s, where a branch or leaf belongs", pageType(pg.flags))
	case id+uint64(pg.overflow) >= f.header.Pages:
		return bad(DamageOverflow, "is said to be %d pages long, beyond the last page %d", int64(pg.overflow)+1, f.header.Pages-1)
	case base+length > f.size:
		return bad(DamageBeyondEnd, "is %d pages long, and the file ends at byte %d", int64(pg.overflow)+1, f.size)
	case length > maxPageBytes:
		return bad(DamageOverflow, "is said to be %d bytes long", length)
	}
	return p.whole(depth, pg, b, length)
}

// whole completes a page whose header is plausible: first the table of elements,
// which says how long it can be, and only then the rest.
func (p *pager) whole(depth int, pg page, b []byte, length int64) (page, *Damage) {
	size := int64(p.f.header.PageSize)
	fail := func(class string, element int, msg string) (page, *Damage) {
		d := &Damage{Class: class, Page: pg.id, Offset: pg.base, Element: element, Msg: msg}
		if element >= 0 {
			d.Offset = pg.elementOffset(element)
		}
		return page{}, d
	}
	table := int64(pageHeaderSize + pg.count*elementSize)
	if table > length {
		return fail(DamageElement, -1, fmt.Sprintf("%d elements do not fit on it", pg.count))
	}
	if !pg.isLeaf() && pg.count == 0 {
		return fail(DamageElement, -1, "a branch without children")
	}
	var err error
	if table > int64(len(b)) {
		if b, err = p.read(depth, pg.base, (table+size-1)/size*size); err != nil {
			return page{}, unreadable(pg.id, pg.base, err)
		}
	}
	pg.b = b
	used, element, bad := pg.checkElements(length)
	pg.used = used
	if bad != "" {
		return fail(DamageElement, element, bad)
	}
	if int64(pg.overflow) > used/size {
		return fail(DamageOverflow, -1, fmt.Sprintf("is said to be %d pages long, and %d bytes are used", int64(pg.overflow)+1, used))
	}
	if length > int64(len(b)) {
		if pg.b, err = p.read(depth, pg.base, length); err != nil {
			return page{}, unreadable(pg.id, pg.base, err)
		}
	}
	return pg, nil
}

// read returns n bytes at an offset that are known to be in the file.
func (p *pager) read(depth int, offset, n int64) ([]byte, error) {
	l := p.level(depth)
	if from := offset - l.start; from >= 0 && from+n <= int64(len(l.b)) {
		return l.b[from : from+n], nil
	}
	if int64(cap(l.big)) < n {
		l.big = make([]byte, n)
	}
	got, err := p.f.r.ReadAt(l.big[:n], offset)
	if int64(got) == n {
		return l.big[:n], nil
	}
	return nil, err
}

func unreadable(id uint64, offset int64, err error) *Damage {
	return &Damage{Class: DamageUnreadable, Page: id, Offset: offset, Element: -1, Msg: "cannot be read: " + err.Error(), Err: err}
}

func pageType(flags uint16) string {
	switch flags {
	case flagBranch:
		return "branch"
	case flagLeaf:
		return "leaf"
	case flagMeta:
		return "meta page"
	case flagFreelist:
		return "freelist"
	}
	return fmt.Sprintf("page of unknown type %#x", flags)
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
