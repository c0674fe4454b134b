package keyspace

import (
	"context"
	"io"

	"kvd/pkg/ops/dbfile"
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
	// Cost says what a walk will read, before it is begun.
	Cost(ctx context.Context, q Query) (Cost, error)
	io.Closer
}

// Bounds are the revisions that a key space can be read at.
type Bounds struct {
	Oldest int64 `json:"oldest_revision"` // the compacted one, which can still be read; 1 where nothing was compacted
	Head   int64 `json:"head_revision"`   // the latest
}

// Query chooses what is read.
type Query struct {
	From, End string // keys in [From, End); an empty End has no end
	// Rev is the revision that Keys reads at, 0 for the latest; of Changes it is
	// the last one.
	Rev int64
	// KeysOnly leaves out the values, Item.Size included where the source
	// would have to read the value for it.
	KeysOnly bool
}

// Item is the state of a key. Its slices are valid until the function that got it
// returns.
type Item struct {
	dbfile.KeyValue
	// Size is what the record takes in the file without page overhead: the
	// encoded mvccpb.KeyValue and the revision that it is stored under, in bytes.
	Size int64
}

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
