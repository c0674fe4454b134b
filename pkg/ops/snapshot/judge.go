package snapshot

import (
	"fmt"
	"strings"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/version"

	"kvd/pkg/ops/dbfile"
)

// judgement is a verdict with its reason.
type judgement struct {
	verdict Verdict
	class   Class
	summary string
	hint    string
}

// judge makes a judgement of facts. What etcd does with each kind of damage:
//
//   - A restore compares the hash first, and refuses what has none or another,
//     unless --skip-hash-check is given.
//   - It and each start open the file with bbolt, which visits every page to find
//     the free ones (etcd stores no freelist) and fails on one that is missing,
//     has another number, or is neither branch nor leaf.
//   - A start decodes every record of the bucket "key", and those of "lease",
//     "alarm", "auth…": one that does not decode ends the process.
//
// Source: go.etcd.io/etcd/etcdutl/v3 v3.7.3, snapshot/v3_snapshot.go; etcd/server/v3,
// storage/mvcc/kvstore.go (restoreChunk), storage/schema; bbolt v1.5.0, db.go (loadFreelist).
func (e *examination) judge() judgement {
	pages, records, freelist, pointers := e.kinds()
	short := e.data - e.size
	mismatch := e.hashes.state == HashMismatch
	switch {
	case e.live:
		return e.judgeLive()
	case e.terminal:
		return judgement{NotRestorable, ClassConverted, "it came through a terminal, which has put a carriage return before each newline", dbfile.CRLFHint}
	case short > 0:
		return e.judgeShort(short)
	case e.zeroTail():
		n := e.size - e.hashes.zeroFrom
		return judgement{e.lossVerdict(), ClassZeroTail,
			fmt.Sprintf("the last %d bytes, from offset %d on, are zeros: they were never written%s", n, e.hashes.zeroFrom, e.lostWords()),
			"fetch it again; a disk that was full or a machine that crashed while it was copied does this"}
	case pages > 0 && e.hashes.state == HashAbsent && pointers > 0:
		return judgement{NotRestorable, ClassTornCopy,
			fmt.Sprintf("%s, and the pages are of different moments: a copy made while a server was writing%s", count(e.damaged, "piece of damage", "pieces of damage"), e.lostWords()),
			copyAnew()}
	case pages > 0:
		return judgement{NotRestorable, ClassBadPages, count(pages, "damaged page", "damaged pages") + e.lostWords() + e.whenDamaged(), restoreOther() + e.maybeTorn("pages")}
	case freelist > 0:
		return judgement{NotRestorable, ClassBadFreelist, "the stored freelist is damaged; all data pages are well",
			"nothing is lost: with its reference to the freelist removed a server finds the free pages itself. etcd stores no freelist; another tool has opened the file for writing"}
	case records > 0:
		return judgement{NotRestorable, ClassBadRecords, count(records, "record does not decode", "records do not decode") + e.lostWords() + e.whenDamaged(), e.recordsHint()}
	case e.hashes.extraBytes > 0 && e.hashes.state == HashMatches:
		return judgement{NotRestorable, ClassExtraBytes,
			fmt.Sprintf("whole, with %s behind it; the content's hash matches when %s ignored. A restore takes it for a file without a hash",
				count(e.hashes.extraBytes, "extra byte", "extra bytes"), isAre(e.hashes.extraBytes)),
			fmt.Sprintf("cut it off: %s > snapshot.db", e.headWords(e.size-e.hashes.extraBytes))}
	case !e.isEtcds():
		return judgement{NotRestorable, ClassNotASnapshot, fmt.Sprintf("a bbolt file, but not etcd's: its buckets are %q", firstFew(e.scan.Buckets)), ""}
	}
	if why := unsupported(e.scan.Meta, e.status.ClusterVersion); why != "" {
		return judgement{NotRestorable, ClassVersion, why, "restore it with the etcd version that wrote it"}
	}
	switch {
	case mismatch:
		return judgement{WithLoss, ClassHashMismatch, "the hash does not match: " + e.changedWords() + e.contradiction() + e.gapNote(),
			"use another copy; a restore needs --skip-hash-check, and values may be wrong"}
	case e.header.OtherMeta != "":
		return judgement{WithLoss, ClassBadMeta, fmt.Sprintf("meta page %d is damaged (%s): the file opens with the other one, which may be a transaction behind", 1-e.header.MetaPage, e.header.OtherMeta),
			restoreOther()}
	case e.gaps > 0 && e.hashes.state == HashAbsent:
		return judgement{WithLoss, ClassTornCopy, e.gapWords() + ", and the pages are of different moments: a copy made while a server was writing", copyAnew()}
	case e.gaps > 0:
		return judgement{WithLoss, ClassMissing, e.gapWords() + e.whenDamaged(), restoreOther()}
	case e.inconsistent > 0:
		return judgement{WithLoss, ClassBadRecords, strings.TrimPrefix(e.contradiction(), "; ") + e.whenDamaged(), restoreOther() + e.maybeTorn("records")}
	case e.hashes.cut > 0:
		return e.judgeCutHash()
	case e.hashes.state == HashAbsent:
		return judgement{Unproven, ClassRawCopy, e.rawWords(), "a restore needs --skip-hash-check; prefer `kvd snapshot save`, whose file carries a hash"}
	}
	return judgement{Restorable, ClassWhole, "hash, pages and records are what they should be", ""}
}

// kinds counts the damage by what it means. pointers is the part of the damaged
// pages that are whole by themselves and are not what the others say of them.
func (e *examination) kinds() (pages, records, freelist, pointers int64) {
	for _, d := range e.damages {
		switch d.Class {
		case dbfile.DamageFreelist:
			freelist++
		case dbfile.DamageRecord, dbfile.DamageRevision:
			records++
		case dbfile.DamageKeyOrder, dbfile.DamageShared, dbfile.DamageOverflow, dbfile.DamageBucket:
			pointers++
			pages++
		default:
			pages++
		}
	}
	if more := e.damaged - int64(len(e.damages)); more > 0 {
		pages += more
	}
	return pages, records, freelist, pointers
}

// judgeShort judges a file that ends before its last page.
func (e *examination) judgeShort(short int64) judgement {
	j := judgement{e.lossVerdict(), ClassTruncated, "", "fetch it again, and compare its size with the original's"}
	size := int64(e.header.PageSize)
	j.summary = fmt.Sprintf("truncated: it holds %d of %d pages, %d bytes are missing%s", e.size/size, e.header.Pages, short, e.lostWords())
	if e.damaged == 0 {
		j.summary += "; all pages that are read are there"
	}
	if e.hashes.state == HashMismatch {
		j.summary = "sha256 mismatch, and " + j.summary
	}
	if partialName(e.path) {
		j.class = ClassPartialDownload
		j.hint = "its name says that it is a download which did not end; fetch it again"
	}
	return j
}

// judgeCutHash judges a file whose pages are well and that ends inside its hash. A
// restore takes it for one without.
func (e *examination) judgeCutHash() judgement {
	h := &e.hashes
	cut := fmt.Sprintf("cut off inside its hash: %d of %d bytes missing", h.cut, dbfile.HashSize)
	if !strings.HasPrefix(h.expected, h.stored) {
		return judgement{WithLoss, ClassHashMismatch, cut + ", and the others do not match: some bytes have changed since it was saved, in values or unused space",
			"use another copy; a restore needs --skip-hash-check, and values may be wrong"}
	}
	return judgement{Unproven, ClassTruncated, cut + ", the others match; pages and records are what they should be",
		"fetch it again, and compare its size with the original's; a restore of this needs --skip-hash-check"}
}

// judgeLive judges a file that a server was writing: it is no backup, whatever it
// looks like.
func (e *examination) judgeLive() judgement {
	j := judgement{Unproven, ClassInUse, "read while " + e.status.Live + " had it open", "take a snapshot with `kvd snapshot save`"}
	switch {
	case e.damaged > 0 && e.changed:
		j.verdict, j.summary = NotRestorable, j.summary+", which wrote to it meanwhile: a copy of these bytes would be torn"
	case e.damaged > 0:
		j.verdict, j.summary = NotRestorable, j.summary+": "+count(e.damaged, "piece of damage", "pieces of damage")+e.lostWords()
	case e.changed:
		j.summary += ", which wrote to it meanwhile"
	}
	return j
}

// lossVerdict is for files of which a part is missing: whether a start would notice.
func (e *examination) lossVerdict() Verdict {
	if e.damaged > 0 {
		return NotRestorable
	}
	return WithLoss
}

// zeroTail says whether the end of the file was never written: its hash is zeros,
// or a page in use lies in zeros that reach to the end. A server's own file may
// end in zeros, since it grows ahead of its use.
func (e *examination) zeroTail() bool {
	if e.hashes.zeroFrom >= e.size {
		return false
	}
	if e.hashes.state == HashMismatch && e.hashes.zeroFrom <= e.size-dbfile.HashSize {
		return true
	}
	for _, d := range e.damages {
		if d.Class == dbfile.DamageZeroPage && d.Offset >= e.hashes.zeroFrom {
			return true
		}
	}
	return false
}

// isEtcds looks for the two buckets that every etcd since 3.0 has.
func (e *examination) isEtcds() bool {
	key, meta := false, false
	for _, b := range e.scan.Buckets {
		key = key || b == dbfile.BucketKey
		meta = meta || b == dbfile.BucketMeta
	}
	return key && meta
}

// unsupported says why a server of this version would not start on a file of that
// schema; empty means that it would.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/schema/schema.go and migration.go. A file
// without a storage version is from 3.5 or before, and is let in. A cluster version above
// the server's own ends it: etcdserver/version/downgrade.go (MustDetectDowngrade).
func unsupported(m dbfile.Meta, cluster string) string {
	own := semver.New(version.Version)
	if v, err := parseVersion(cluster); err == nil && (v.Major > own.Major || v.Major == own.Major && v.Minor > own.Minor) {
		return fmt.Sprintf("its cluster version is %s, and etcd %s ends when it reads one above its own", cluster, version.Version)
	}
	v, err := parseVersion(m.StorageVersion)
	if err != nil {
		return ""
	}
	if v.Major == own.Major && v.Minor <= own.Minor && v.Minor >= version.V3_5.Minor {
		return ""
	}
	return fmt.Sprintf("its storage version is %s, and etcd %s reads %d.%d to %d.%d", m.StorageVersion, version.Version, own.Major, version.V3_5.Minor, own.Major, own.Minor)
}

func parseVersion(s string) (*semver.Version, error) { return semver.NewVersion(s) }
