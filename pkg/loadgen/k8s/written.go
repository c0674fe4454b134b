package k8s

import (
	"sync"
	"time"
)

// remembered is how many revisions' writes are kept: over twenty minutes of 200 a
// second, in 6 MiB.
const remembered = 1 << 18

// written remembers the last writes, so that it is known of each event since when it
// was due. It is safe for concurrent use.
type written struct {
	begun  time.Time
	forget func(shard int, revision int64, at time.Time) // of a write that is no longer remembered

	mu     sync.Mutex
	newest int64
	lasts  map[int]int64 // newest of each shard
	slots  []write       // by revision modulo remembered
}

// write is one that was answered.
type write struct {
	revision int64
	at       time.Duration // since begun
	shard    int
}

func newWritten(forget func(shard int, revision int64, at time.Time)) *written {
	return &written{begun: time.Now(), forget: forget, lasts: map[int]int64{}, slots: make([]write, remembered)}
}

// add takes note of a write to a shard's pods that was answered just now.
func (w *written) add(revision int64, shard int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest = max(w.newest, revision)
	w.lasts[shard] = max(w.lasts[shard], revision)
	slot := &w.slots[revision%remembered]
	if slot.revision > 0 {
		w.forget(slot.shard, slot.revision, w.begun.Add(slot.at))
	}
	*slot = write{revision, time.Since(w.begun), shard}
}

// at returns when a write was answered: zero for one that has not been yet. It does
// not know those that were too long ago.
func (w *written) at(revision int64) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slot := w.slots[revision%remembered]; slot.revision == revision {
		return w.begun.Add(slot.at), true
	}
	return time.Time{}, revision > w.newest-remembered
}

// last returns the revision of a shard's newest write, 0 for none.
func (w *written) last(shard int) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lasts[shard]
}

// each calls fn for each write to a shard between two revisions that is remembered.
func (w *written) each(shard int, from, to int64, fn func(at time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := max(from, w.newest-remembered+1, 1); r <= min(to, w.newest); r++ {
		if slot := w.slots[r%remembered]; slot.revision == r && slot.shard == shard {
			fn(w.begun.Add(slot.at))
		}
	}
}
