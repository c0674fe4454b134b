package diff

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"

	"kvd/pkg/ops/keyspace"
)

// cursor is a walk over a key space that is taken step by step. The walk and its
// reader take turns, so that neither copies anything and nothing is read at the
// same time.
type cursor struct {
	item   *keyspace.Item
	failed error
	next   func() (*keyspace.Item, bool)
	stop   func()
}

// walk calls a function for keys, in their order.
type walk func(context.Context, func(*keyspace.Item) error) error

// newCursor returns a walk before its first step.
func newCursor(ctx context.Context, keys walk) *cursor {
	c := &cursor{}
	c.next, c.stop = iter.Pull(func(yield func(*keyspace.Item) bool) {
		err := keys(ctx, func(i *keyspace.Item) error {
			if !yield(i) {
				return errStopped
			}
			return nil
		})
		if !errors.Is(err, errStopped) {
			c.failed = err
		}
	})
	return c
}

// begin takes the first step of two walks at the same time: of a file it is the one
// that reads it.
func begin(a, b *cursor) {
	var first sync.WaitGroup
	first.Go(a.advance)
	b.advance()
	first.Wait()
}

// advance goes on to the next key; item is nil behind the last, or where the walk
// failed.
func (c *cursor) advance() { c.item, _ = c.next() }

// at returns the item, if it is the key's.
func (c *cursor) at(key []byte) *keyspace.Item {
	if c.item != nil && bytes.Equal(c.item.Key, key) {
		return c.item
	}
	return nil
}

// least returns the smallest key that any of the walks is at.
func least(a, b *cursor, h *history) (key []byte, more bool) {
	consider := func(k []byte) {
		if !more || bytes.Compare(k, key) < 0 {
			key, more = k, true
		}
	}
	if a.item != nil {
		consider(a.item.Key)
	}
	if b.item != nil {
		consider(b.item.Key)
	}
	if h.change != nil {
		consider(h.change.Key)
	}
	return key, more
}

// history is a walk over the changes between two revisions.
type history struct {
	change *keyspace.Change
	failed error
	next   func() (*keyspace.Change, bool)
	stop   func()

	key []byte // of the life in hand
}

// life is what was done to a key in between.
type life struct {
	writes, lives int64
	first, last   int64
}

// history begins the walk over what the later side has done since the earlier
// revision. Without Options.History it is at its end at once.
func (m *merge) history(ctx context.Context, q keyspace.Query) *history {
	h := &history{stop: func() {}}
	if !m.o.History {
		return h
	}
	from, to := m.a, m.b
	if from.Rev > to.Rev {
		from, to = to, from
	}
	q.After, q.Rev, q.KeysOnly = from.Rev, to.Rev, true
	h.next, h.stop = iter.Pull(func(yield func(*keyspace.Change) bool) {
		err := to.Changes(ctx, q, func(c *keyspace.Change) error {
			if !yield(c) {
				return errStopped
			}
			return nil
		})
		if !errors.Is(err, errStopped) {
			h.failed = err
		}
	})
	h.advance()
	return h
}

func (h *history) advance() { h.change, _ = h.next() }

// life takes all changes of a key, if the walk is at that key.
func (h *history) life(key []byte) (l life) {
	if h.change == nil || !bytes.Equal(h.change.Key, key) {
		return l
	}
	h.key = append(h.key[:0], key...) // it may be the change's own
	for living := false; h.change != nil && bytes.Equal(h.change.Key, h.key); h.advance() {
		if l.first == 0 {
			l.first = h.change.ModRevision
		}
		l.last = h.change.ModRevision
		if h.change.Tombstone {
			living = false
			continue
		}
		if l.writes++; !living {
			living = true
			l.lives++
		}
	}
	return l
}
