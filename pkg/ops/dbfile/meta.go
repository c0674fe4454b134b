package dbfile

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"kvd/pkg/ops/fault"
)

// Meta is what the bucket "meta" says about the content of the file.
type Meta struct {
	// ConsistentIndex is the index of the last raft entry that was applied to
	// the file, 0 where none was; Term is that entry's, 0 before etcd 3.5.
	ConsistentIndex, Term uint64
	// ScheduledCompact and FinishedCompact are the revisions of the last
	// compaction that was asked for, and carried out. 0 means never.
	ScheduledCompact, FinishedCompact int64
	// StorageVersion is "3.6" or later, empty where the file does not say.
	StorageVersion string
	// ConfState is raft's membership, nil where the file does not say.
	ConfState *ConfState
}

// ConfState is raft's view of the members, by ID.
type ConfState struct {
	Voters         []uint64 `json:"voters"`
	Learners       []uint64 `json:"learners"`
	VotersOutgoing []uint64 `json:"voters_outgoing"`
	LearnersNext   []uint64 `json:"learners_next"`
	AutoLeave      bool     `json:"auto_leave"`
}

// CompactRevision is the revision below which history is gone, or will be as soon
// as a server starts on the file: it resumes a compaction that is pending.
func (m Meta) CompactRevision() int64 { return max(m.ScheduledCompact, m.FinishedCompact) }

// CompactionPending reports whether a compaction was asked for and not finished.
func (m Meta) CompactionPending() bool { return m.ScheduledCompact > m.FinishedCompact }

// The keys of the bucket "meta", and of "cluster" and "auth".
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/schema/bucket.go; the values
// are written in cindex.go, confstate.go, version.go and mvcc/store.go.
const (
	metaScheduledCompact = "scheduledCompactRev" // a revision of 17 bytes
	metaFinishedCompact  = "finishedCompactRev"  // a revision of 17 bytes
	metaConsistentIndex  = "consistent_index"    // u64, big-endian
	metaTerm             = "term"                // u64, big-endian; since 3.5
	metaConfState        = "confState"           // JSON; since 3.5
	metaStorageVersion   = "storageVersion"      // text; since 3.6
)

// liveTries is how often a file that is being written is read anew.
const liveTries = 20

// Meta reads the bucket "meta". Of a file that a server is writing it is a
// consistent picture, of one transaction.
func (f *File) Meta(ctx context.Context) (Meta, error) {
	var m Meta
	err := f.settled(func(g *File) (err error) {
		m, err = g.meta(ctx)
		return err
	})
	return m, err
}

// Members reads the bucket "members", as consistently as Meta.
func (f *File) Members(ctx context.Context) ([]Member, error) {
	var out []Member
	err := f.settled(func(g *File) error {
		out = nil
		return g.Each(ctx, BucketMembers, func(key, value []byte) error {
			m, err := ParseMember(key, value)
			if err != nil {
				return f.stopped(&Damage{Class: DamageRecord, Bucket: BucketMembers, Element: -1, Msg: err.Error()})
			}
			out = append(out, m)
			return nil
		})
	})
	return out, err
}

func (f *File) meta(ctx context.Context) (Meta, error) {
	var m Meta
	err := f.Each(ctx, BucketMeta, func(key, value []byte) error {
		if bad := m.set(string(key), value); bad != "" {
			return f.stopped(&Damage{Class: DamageRecord, Bucket: BucketMeta, Element: -1, Msg: bad})
		}
		return nil
	})
	return m, err
}

// set takes one record of the bucket; the string says what is wrong with it. Keys
// of versions to come are skipped.
func (m *Meta) set(key string, value []byte) string {
	u64 := func(to *uint64) string {
		if len(value) != 8 {
			return fmt.Sprintf("%s has %d bytes, not 8", key, len(value))
		}
		*to = binary.BigEndian.Uint64(value)
		return ""
	}
	rev := func(to *int64) string {
		r, ok := ParseRevision(value)
		if !ok {
			return fmt.Sprintf("%s is no revision", key)
		}
		*to = r.Main
		return ""
	}
	switch key {
	case metaConsistentIndex:
		return u64(&m.ConsistentIndex)
	case metaTerm:
		return u64(&m.Term)
	case metaScheduledCompact:
		return rev(&m.ScheduledCompact)
	case metaFinishedCompact:
		return rev(&m.FinishedCompact)
	case metaStorageVersion:
		m.StorageVersion = string(value)
	case metaConfState:
		m.ConfState = new(ConfState)
		if err := json.Unmarshal(value, m.ConfState); err != nil {
			return fmt.Sprintf("%s does not decode: %v", key, err)
		}
	}
	return ""
}

// settled runs a short read. Where a server is writing the file meanwhile, it is
// repeated until no transaction came between: bbolt reuses a page only two
// transactions after the one that could see it.
func (f *File) settled(read func(*File) error) error {
	if f.disk == nil || !f.disk.open {
		return read(f)
	}
	var err error
	for range liveTries {
		info, serr := f.disk.file.Stat()
		if serr != nil {
			return openError(f.name, serr)
		}
		g := &File{name: f.name, r: f.r, size: info.Size(), disk: f.disk}
		if err = g.init(); err != nil {
			continue
		}
		err = read(g)
		if after, bad := g.findHeader(); bad == "" && after.TxID == g.header.TxID {
			return err
		}
		if err == nil {
			err = &fault.Error{Kind: fault.Inconclusive, Cause: "file_changed", Op: "read", Subject: f.name,
				Msg: "the server that holds it writes faster than it can be read", Hint: "ask the server, or try again"}
		}
	}
	return err
}

// Changed reports whether a server has written to the file since it was opened,
// so that what was read since may be from different moments.
func (f *File) Changed() bool {
	h, bad := f.findHeader()
	return bad != "" || h.TxID != f.header.TxID
}
