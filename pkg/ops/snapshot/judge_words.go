package snapshot

import (
	"fmt"
	"path/filepath"
	"strings"

	"kvd/pkg/ops/dbfile"
)

// headWords is the command that shows the first bytes of the content.
func (e *examination) headWords(n int64) string {
	if e.status.Packed != nil {
		return fmt.Sprintf("zstd -dc FILE | head -c %d", n)
	}
	return fmt.Sprintf("head -c %d FILE", n)
}

// lostWords says which revisions cannot be read.
func (e *examination) lostWords() string {
	var spans []string
	more := 0
	buckets := map[string]bool{}
	for _, d := range e.damages {
		if d.Bucket != dbfile.BucketKey {
			if d.Bucket != "" || d.Class == dbfile.DamageBucket || d.Subtree {
				buckets[d.Bucket] = true
			}
			continue
		}
		from, before := lost(d)
		switch {
		case len(spans) >= 3:
			more++
		case !d.Subtree && from != "":
			spans = append(spans, "revision "+from)
		case from == "" && before == "":
			spans = append(spans, "all revisions")
		case before == "":
			spans = append(spans, "revisions from "+from+" on")
		case from == "":
			spans = append(spans, "revisions before "+before)
		default:
			spans = append(spans, "revisions from "+from+" to before "+before)
		}
	}
	if buckets[""] {
		return e.lostWith() + "whole buckets"
	}
	var out string
	if len(spans) > 0 {
		out = e.lostWith() + strings.Join(spans, ", ")
		if more > 0 {
			out += fmt.Sprintf(" and %d more ranges", more)
		}
	}
	for _, b := range []string{dbfile.BucketLease, dbfile.BucketAuth, dbfile.BucketAuthUsers, dbfile.BucketAuthRoles, dbfile.BucketMembers, dbfile.BucketMeta, dbfile.BucketAlarm, dbfile.BucketCluster} {
		if buckets[b] {
			out += fmt.Sprintf(", part of bucket %q", b)
		}
	}
	return out
}

// lostWith begins what is lost with the damage that was named before.
func (e *examination) lostWith() string {
	if e.damaged == 1 && e.size >= e.data {
		return ", and with it "
	}
	return ", and with them "
}

// lost bounds the revisions that a piece of damage in the bucket "key" costs.
func lost(d *dbfile.Damage) (from, before string) {
	if r, ok := dbfile.ParseRevision(d.Lower); ok {
		from = r.String()
	}
	if r, ok := dbfile.ParseRevision(d.Upper); ok {
		before = r.String()
	}
	return from, before
}

// whenDamaged says whether the damage is older than the snapshot.
func (e *examination) whenDamaged() string {
	if e.hashes.state == HashMatches {
		return "; the hash matches, so the member that it was saved from was damaged already"
	}
	return ""
}

// maybeTorn says what damage of a file without a hash can come from as well: the
// header of a page and the rest of it can be of different moments.
func (e *examination) maybeTorn(what string) string {
	if e.hashes.state == HashAbsent {
		return "; a copy made while a server was writing can have such " + what + " too"
	}
	return ""
}

// changedWords says what has become of a file whose hash does not match. A tool that
// opens it for writing leaves meta pages that no snapshot has, and keys and values
// as they were; a disk or a copy that loses bytes doesn't.
func (e *examination) changedWords() string {
	if e.header.OtherMeta == "" && !e.header.AsSent {
		return "the file was opened for writing since it was saved, as etcdutl hashkv and etcd-dump-db do: its meta pages are not those of a snapshot. That alone changes the hash; nothing proves any more that the values are what they were"
	}
	const bytesChanged = "some bytes have changed since it was saved, in values or unused space"
	if e.header.OtherMeta == "" && e.header.TxID%2 == 0 {
		return bytesChanged + ", or the file was opened for writing, as etcdutl hashkv does"
	}
	return bytesChanged
}

func (e *examination) contradiction() string {
	if e.inconsistent == 0 {
		return ""
	}
	return fmt.Sprintf("; %s, the first: %s", count(e.inconsistent, "record contradicts itself", "records contradict themselves"), e.firstInconsistent)
}

func (e *examination) rawWords() string {
	s := "pages and records are what they should be, but there is no hash to prove the values: "
	if e.size == e.data {
		s += "a raw copy, or a snapshot that lost its last 32 bytes"
	} else {
		s += "a server's own file, or a raw copy of one"
	}
	return s + ". A copy made while a server was writing may be torn in values and at its end, which nothing shows"
}

// gapWords says that revisions are missing.
func (e *examination) gapWords() string {
	return fmt.Sprintf("revisions are missing in %s, the first: %s", count(e.gaps, "place", "places"), e.firstGap)
}

func (e *examination) gapNote() string {
	if e.gaps == 0 {
		return ""
	}
	return "; " + e.gapWords()
}

// recordsHint is what to do about records that do not decode. Those of the members end a
// start on the file as it is, and no restore reads them: it writes them anew.
//
// Source: go.etcd.io/etcd/etcdutl/v3 v3.7.3, snapshot/v3_snapshot.go (saveDB: TrimMembershipFromBackend).
func (e *examination) recordsHint() string {
	for _, d := range e.damages {
		if d.Bucket != dbfile.BucketMembers && d.Bucket != dbfile.BucketMembersRemoved {
			return restoreOther() + e.maybeTorn("records")
		}
	}
	skip := ""
	if e.hashes.state != HashMatches {
		skip = " with --skip-hash-check=true"
	}
	return "no key is lost: these are the members' records, which a restore writes anew, and `etcdutl snapshot restore`" + skip + " takes the file; else " + restoreOther()
}

func copyAnew() string {
	return "take a snapshot with `kvd snapshot save`, or copy the file while the member is stopped"
}

func restoreOther() string { return "use another snapshot, or one of another member" }

// partialName recognises the names that tools give to a download that has not
// ended: etcdctl's and kvd's own .part, and those of browsers and others.
func partialName(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".part", ".partial", ".crdownload", ".download", ".tmp":
		return true
	}
	return false
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func isAre(n int64) string {
	if n == 1 {
		return "it is"
	}
	return "they are"
}

func firstFew(names []string) []string { return names[:min(len(names), 5)] }
