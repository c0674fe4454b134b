package keyspace

import (
	"errors"
	"maps"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"kvd/pkg/ops/dbfile"
)

// TestAKeyLogKeepsTheLatestOfEachKey puts records into logs as several readers do, and
// compares what is left with maps: how many there were, the latest, and that each
// other one was told of once, beside one that came after it.
func TestAKeyLogKeepsTheLatestOfEachKey(t *testing.T) {
	t.Parallel()
	folded, full := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		memory := rapid.Int64Range(1, 200).Draw(t, "records") * keyRecordBytes
		keys := rapid.SampledFrom([]uint64{3, 40, 400}).Draw(t, "keys")
		next, latest, count := map[uint64]uint64{}, map[uint64]uint64{}, map[uint64]uint32{} // marks are numbers of records
		told, hashes := map[uint64]uint64{}, map[uint64]uint64{}
		older := func(old, newer *keyRecord) {
			if told[old.mark] != 0 {
				t.Errorf("told of %d twice", old.mark)
			}
			told[old.mark] = newer.mark
		}
		logs := make([]*keyLog, rapid.IntRange(1, 3).Draw(t, "readers"))
		mark := uint64(0)
		for i := range logs {
			logs[i] = newKeyLog(memory, older)
			for range rapid.IntRange(0, 1500).Draw(t, "records of one") {
				mark++
				key := (mark*0x9e3779b97f4a7c15 ^ mark>>3) % keys
				hash := key%5<<60 | key                                                                    // in few shares, and many with one home
				r := dbfile.Record{Offset: int64(mark), Revision: dbfile.Revision{Tombstone: mark%3 == 0}} //nolint:gosec // small
				before := logs[i].n
				if err := logs[i].add(hash, &r, int64(mark), mark); err != nil { //nolint:gosec // small
					if !errors.Is(err, errTableFull) || keys < uint64(logs[i].max)/4*3 {
						t.Fatalf("%v with %d keys and room for %d", err, keys, logs[i].max)
					}
					full++
					return
				}
				if logs[i].n <= before {
					folded++
				}
				if was, ok := latest[hash]; ok {
					next[was] = mark
				}
				latest[hash], hashes[mark] = mark, hash
				count[hash]++
			}
		}
		folders := make([]*keyFolder, rapid.IntRange(1, 3).Draw(t, "workers"))
		var mu sync.Mutex
		for i := range folders {
			folders[i] = &keyFolder{older: func(old, newer *keyRecord) {
				mu.Lock()
				defer mu.Unlock()
				older(old, newer)
			}}
		}
		left := map[uint64]uint64{}
		foldLogs(logs, folders, func(_ int, s *keyShare) {
			mu.Lock()
			defer mu.Unlock()
			var f keyFolder
			f.fill(s)
			for i := range s.n {
				r := s.at(i)
				if _, twice := left[r.hash]; twice || r.count != count[r.hash] || r.place() != int64(r.mark) || uint64(r.size) != r.mark || r.tombstone() != (r.mark%3 == 0) { //nolint:gosec // small
					t.Errorf("%+v of %d records, again: %v", *r, count[r.hash], twice)
				}
				left[r.hash] = r.mark
				if f.find(r.hash) != r || f.find(r.hash^1<<40) != nil {
					t.Errorf("%+v is not found, or what is not there is", *r)
				}
			}
		})
		if !maps.Equal(left, latest) || len(told) != len(next) || len(logs) == 1 && !maps.Equal(told, next) {
			t.Fatalf("left are %v, want %v; told were %v, want %v", left, latest, told, next)
		}
		for old, newer := range told { // of several readers the later one may have put its own together before
			if next[old] == 0 || newer < next[old] || hashes[newer] != hashes[old] {
				t.Fatalf("told of %d beside %d, which is followed by %d", old, newer, next[old])
			}
		}
	})
	if folded < 20 || full < 5 {
		t.Errorf("put together early %d times, and full %d times", folded, full)
	}
}
