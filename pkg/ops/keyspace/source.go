package keyspace

import (
	"context"
	"fmt"
	"io"
	"slices"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// Source is one key space, live or in a file, that is read in the order of its
// keys in bounded memory. It is not safe for concurrent use: whoever reads two
// sides opens two.
type Source interface {
	// Name says what is read, for errors and headings: "m2 (8e9e05c5…)",
	// "backup.db".
	Name() string
	// Bounds says which revisions can be read. A live source tells those of the
	// moment: its head moves, and a compaction raises its oldest.
	Bounds(ctx context.Context) (Bounds, error)
	// Keys calls fn for every key that is live at a revision, in order. A
	// revision that was compacted or that is yet to come is a *fault.Error
	// which says the bounds. The first error of fn ends the walk and is returned.
	Keys(ctx context.Context, q Query, fn func(*Item) error) error
	// Changes calls fn for every kept change of every key of the range: by key,
	// and of one key from its oldest to its newest. What a live source needs to
	// read for that is more than the answer, see Cost.
	Changes(ctx context.Context, q Query, fn func(*Change) error) error
	// Load completes an item that was given without its value (Query.KeysOnly).
	// It may be called from the function that got it; the slice is the caller's.
	Load(ctx context.Context, it *Item) error
	// Cost says what a walk will read, before it is begun.
	Cost(ctx context.Context, q Query) (Cost, error)
	io.Closer
}

// Bounds are the revisions that a key space can be read at.
type Bounds struct {
	Oldest int64 `json:"oldest_revision"` // the compacted one, which can still be read; 1 where nothing was compacted
	Head   int64 `json:"head_revision"`   // the latest
}

// Revision returns the revision that is asked for, 0 for the latest.
func (b Bounds) Revision(name string, rev int64) (int64, error) {
	e := &fault.Error{Kind: fault.Refused, Op: "read", Subject: name}
	switch {
	case rev == 0:
		return b.Head, nil
	case rev < b.Oldest:
		e.Cause, e.Msg = cluster.CauseCompacted, fmt.Sprintf("revision %d was compacted: the oldest that can be read is %d, the latest %d", rev, b.Oldest, b.Head)
		e.Hint = fmt.Sprintf("ask for revision %d or a later one; what was deleted before it can no longer be told", b.Oldest)
	case rev > b.Head:
		e.Cause, e.Msg = cluster.CauseFutureRevision, fmt.Sprintf("revision %d is yet to come: the latest is %d", rev, b.Head)
		e.Hint = fmt.Sprintf("ask for a revision from %d to %d", b.Oldest, b.Head)
	default:
		return rev, nil
	}
	return 0, e
}

// Query chooses what is read.
type Query struct {
	From, End string // keys in [From, End); an empty End has no end
	// Rev is the revision that Keys reads at, 0 for the latest; of Changes it is
	// the last one.
	Rev int64
	// After leaves out, of Changes, those of this revision and before.
	After int64
	// KeysOnly leaves out the values. Keys of a live cluster have no Size and
	// no Lease then either, which a server since 3.7 does not look up.
	KeysOnly bool

	// among leaves out, of a file, the keys that are in none of these ranges.
	among []Range
}

// contains reports whether a key is in the range, and in one of those that it is
// to be among.
func (q Query) contains(key []byte) bool {
	in := func(r Range) bool {
		return string(key) >= r.From && (r.End == "" || r.End == allEnd || string(key) < r.End)
	}
	return in(Range{q.From, q.End}) && (len(q.among) == 0 || slices.ContainsFunc(q.among, in))
}

// Item is the state of a key. Its slices are valid until the function that got it
// returns.
type Item struct {
	dbfile.KeyValue
	// Size is what the record takes in the file without page overhead: the
	// encoded mvccpb.KeyValue and the revision that it is stored under, in bytes.
	Size int64

	ref reference
}

// reference says where the value can be read: the offset and size of the encoded
// record in a file, or a revision at which a member has it, with size 0.
type reference struct{ at, size int64 }

// Change is one record: a put or, as a tombstone, a deletion. Of a tombstone only
// Key and ModRevision are set.
type Change struct {
	Item
	Sub       int64 // the number of the change in its transaction
	Tombstone bool
}

// Cost is what a walk reads.
type Cost struct {
	Bytes int64 `json:"read_bytes"`    // at most, as far as can be known before
	Exact bool  `json:"exact"`         // Bytes is no estimate
	Live  bool  `json:"from_a_member"` // a server is asked, and which is told by Name
}
