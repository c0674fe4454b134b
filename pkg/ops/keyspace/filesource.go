package keyspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/spool"
)

// FileOptions says how to read a key space from a file.
type FileOptions struct {
	// SpoolDir is where a compressed file is unpacked, and keys are sorted
	// that do not fit into memory. Empty: the system's folder for temporary files.
	SpoolDir string
	// Memory bounds what is used for sorting, in bytes; 0 is 48 MiB. The process
	// has up to some 2.5 times as much, as garbage is collected late.
	Memory int64
	Op     string // what it is for, in events and errors
	Sink   progress.Sink
}

const defaultMemory = 48 << 20

// FileSource is the key space in a backend file or snapshot: the state that a
// server would have which starts on it. What a compaction that is pending would
// remove is gone from it already.
type FileSource struct {
	path  string
	db    *dbfile.File
	spool *spool.File // nil where the file is not compressed
	o     FileOptions
	meta  dbfile.Meta
	bound Bounds
	value []byte // the record in hand
}

// OpenFile opens a data directory (its member/snap/db), a backend file or a
// snapshot, plain or compressed with zstd. It writes nothing and takes no lock.
//
// A file that a running server holds is read as it is. What was read is from one
// moment, or the error says that it may not be (fault.Inconclusive, cause
// "file_changed").
//
// Errors are those of dbfile.Open and spool.Open.
func OpenFile(ctx context.Context, path string, o FileOptions) (*FileSource, error) {
	if o.Sink == nil {
		o.Sink = progress.Discard
	}
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	s := &FileSource{path: path, o: o}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *FileSource) open(ctx context.Context) error {
	path := dbIn(s.path)
	c, err := spool.Compression(path)
	if err == nil && c != spool.None {
		if s.spool, err = spool.Open(ctx, path, spool.Options{Dir: s.o.SpoolDir, Op: s.o.Op}, s.o.Sink); err != nil {
			return err
		}
		s.db, err = dbfile.New(path, s.spool, s.spool.Size())
	} else {
		s.db, err = dbfile.OpenWith(path, dbfile.Options{NoLock: true}) // which says best what is wrong with the path
	}
	if err == nil {
		err = s.bounds(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// dbIn finds the backend file in a data directory, its member folder or that one's
// snap. A path that is none of these is returned as it is.
func dbIn(path string) string {
	for _, in := range []string{"member/snap/db", "snap/db", "db"} {
		db := filepath.Join(path, filepath.FromSlash(in))
		if info, err := os.Stat(db); err == nil && info.Mode().IsRegular() {
			return db
		}
	}
	return path
}

func (s *FileSource) bounds(ctx context.Context) (err error) {
	if s.meta, err = s.db.Meta(ctx); err != nil {
		return err
	}
	last, err := s.db.LastRevision(ctx)
	if err != nil {
		return s.torn(err)
	}
	compacted := max(1, s.meta.CompactRevision())
	s.bound = Bounds{Oldest: compacted, Head: max(compacted, last)}
	return nil
}

// Name returns the path that was given.
func (s *FileSource) Name() string { return s.path }

// Path returns the backend file that is read.
func (s *FileSource) Path() string { return s.db.Name() }

// Holder names the running server that holds the file, if one does.
func (s *FileSource) Holder() (dbfile.Holder, bool) { return s.db.Live() }

// Close releases the file.
func (s *FileSource) Close() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	if s.spool != nil {
		err = errors.Join(err, s.spool.Close())
	}
	return err
}

// Bounds returns the revisions that a server would answer for.
func (s *FileSource) Bounds(context.Context) (Bounds, error) {
	return s.bound, nil
}

// Cost is the size of the file: all of its pages are read, whatever the range.
func (s *FileSource) Cost(context.Context, Query) (Cost, error) {
	return Cost{Bytes: s.db.DataSize(), Exact: true}, nil
}

// Keys reads the file once, and then the values by where they are.
func (s *FileSource) Keys(ctx context.Context, q Query, fn func(*Item) error) error {
	rev, err := s.bound.Revision(s.path, q.Rev)
	if err != nil {
		return err
	}
	var last held
	give := func(c *Change) error { return fn(&c.Item) }
	err = s.sorted(ctx, q, rev, func(c *Change) error {
		if !last.is(c.Key) {
			if err := s.giveHeld(q, &last, give); err != nil {
				return err
			}
		}
		last.set(c)
		return nil
	})
	if err != nil {
		return err
	}
	return s.giveHeld(q, &last, give)
}

// Changes reads the file once, and then the values by where they are. The first
// ones are of the oldest revision: the state that a compaction leaves.
func (s *FileSource) Changes(ctx context.Context, q Query, fn func(*Change) error) error {
	rev, err := s.bound.Revision(s.path, q.Rev)
	if err != nil {
		return err
	}
	var base held
	err = s.sorted(ctx, q, rev, func(c *Change) error {
		if c.ModRevision <= q.After {
			return nil
		}
		if c.ModRevision <= s.bound.Oldest && base.is(c.Key) {
			base.set(c)
			return nil
		}
		if err := s.giveHeld(q, &base, fn); err != nil {
			return err
		}
		if c.ModRevision <= s.bound.Oldest {
			base.set(c)
			return nil
		}
		return s.give(q, c, fn)
	})
	if err != nil {
		return err
	}
	return s.giveHeld(q, &base, fn)
}

// held is a change that may turn out to be followed by another one of its key.
type held struct {
	Change
	full bool
}

func (h *held) is(key []byte) bool { return h.full && string(h.Key) == string(key) }

func (h *held) set(c *Change) {
	key := append(h.Key[:0], c.Key...)
	h.Change, h.full = *c, true
	h.Key = key
}

// giveHeld hands over what is held, if that is a put.
func (s *FileSource) giveHeld(q Query, h *held, fn func(*Change) error) error {
	if !h.full {
		return nil
	}
	h.full = false
	if h.Tombstone {
		return nil
	}
	c := h.Change // of which the receiver may do what it likes
	return s.give(q, &c, fn)
}

// Load reads the value of an item that Keys or Changes gave without.
func (s *FileSource) Load(_ context.Context, it *Item) error {
	if it.ref.size == 0 {
		return nil
	}
	return s.load(it, make([]byte, it.ref.size))
}

// load reads a record into b, and checks that it is still the one that was there.
func (s *FileSource) load(it *Item, b []byte) error {
	if _, err := s.db.ReadAt(b, it.ref.at); err != nil {
		return s.torn(&fault.Error{Kind: fault.Unavailable, Cause: "unreadable_file", Op: "read", Subject: s.path, Err: err})
	}
	kv, err := dbfile.ParseKeyValue(b)
	if err != nil || !bytes.Equal(kv.Key, it.Key) || kv.ModRevision != it.ModRevision {
		return s.torn(s.changed(it.ref.at))
	}
	it.Value = kv.Value
	if _, live := s.db.Live(); !live { // as far as is known: it is looked at once, at the end
		return nil
	}
	return s.torn(nil)
}

// changed is the error of a record that is not what it was.
func (s *FileSource) changed(at int64) error {
	return &fault.Error{Kind: fault.Damage, Cause: "file_changed", Op: "read", Subject: s.path,
		Msg: fmt.Sprintf("the record at offset %d is another one than a moment ago", at)}
}

// give hands a change over, with its value where that is wanted.
func (s *FileSource) give(q Query, c *Change, fn func(*Change) error) error {
	if !q.KeysOnly && c.ref.size > 0 {
		if int64(cap(s.value)) < c.ref.size {
			s.value = make([]byte, c.ref.size+c.ref.size/4)
		}
		if err := s.load(&c.Item, s.value[:c.ref.size]); err != nil {
			return err
		}
	}
	return fn(c)
}

// torn explains what was read, or the error in it, where a server is writing the
// file meanwhile, be it one that has only just started.
func (s *FileSource) torn(err error) error {
	if !s.db.Changed() {
		return err
	}
	h, live := s.db.Live()
	if !live {
		h, _ = s.db.Holder()
	}
	return &fault.Error{Kind: fault.Inconclusive, Cause: "file_changed", Op: "read", Subject: s.path, Err: err,
		Msg:  "written by " + h.String() + " while it was read, so that what was read may be of different moments",
		Hint: "ask the server (leave the path out), or read what `kvd snapshot save` makes of it"}
}
