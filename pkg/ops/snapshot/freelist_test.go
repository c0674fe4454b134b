package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"kvd/pkg/ops/snapshot"
)

// withFreelist makes a file that stores a list of its free pages, as another tool
// than etcd leaves it: bbolt, with its own defaults, adds a long record and deletes
// it again.
func withFreelist(t testing.TB, good []byte) []byte {
	t.Helper()
	b := changed(t, good, bolt.Options{}, func(tx *bolt.Tx) error {
		x, err := tx.CreateBucketIfNotExists([]byte("alarm"))
		if err != nil {
			return err
		}
		return x.Put([]byte("gone"), make([]byte, 40000))
	})
	return changed(t, b, bolt.Options{}, func(tx *bolt.Tx) error { return tx.Bucket([]byte("alarm")).Delete([]byte("gone")) })
}

// meta returns the meta page that holds, without its page header.
func meta(b []byte) []byte {
	first, second := b[16:], b[pageSize+16:]
	if binary.LittleEndian.Uint64(second[48:]) > binary.LittleEndian.Uint64(first[48:]) {
		return second
	}
	return first
}

// freelist returns the page that lists the free ones, and its number.
func freelist(b []byte) (list []byte, id uint64) {
	id = binary.LittleEndian.Uint64(meta(b)[32:])
	return page(b, int(id)), id
}

// freelistDamages are the ways in which a stored freelist can be wrong.
func freelistDamages() map[string]func(b []byte) {
	le := binary.LittleEndian
	point := func(to func(b []byte) uint64) func([]byte) {
		return func(b []byte) { le.PutUint64(meta(b)[32:], to(b)); resum(b) }
	}
	change := func(how func(list []byte)) func([]byte) {
		return func(b []byte) { list, _ := freelist(b); how(list) }
	}
	return map[string]func(b []byte){
		"another page type":       change(func(p []byte) { p[8] = 2 }),
		"no page type":            change(func(p []byte) { p[8] = 0 }),
		"says it is another page": change(func(p []byte) { p[0]++ }),
		"longer than the file":    change(func(p []byte) { p[14] = 1 }),
		"zeroed":                  change(func(p []byte) { clear(p) }),
		"more than fits":          change(func(p []byte) { le.PutUint16(p[10:], 60000) }),
		"a count of 2^40":         change(func(p []byte) { le.PutUint16(p[10:], 0xffff); le.PutUint64(p[16:], 1<<40) }),
		"a page beyond the end":   change(func(p []byte) { le.PutUint64(p[16+8:], 1<<40) }),
		"a page twice":            change(func(p []byte) { copy(p[16+8:24+8], p[16:24]) }),
		"a meta page":             change(func(p []byte) { le.PutUint64(p[16:], 1) }),
		"a page in use":           func(b []byte) { list, _ := freelist(b); le.PutUint64(list[16:], le.Uint64(meta(b)[16:])) },
		"points beyond the end":   point(func([]byte) uint64 { return 1 << 40 }),
		"points at a meta page":   point(func([]byte) uint64 { return 1 }),
		"points at the root":      point(func(b []byte) uint64 { return le.Uint64(meta(b)[16:]) }),
	}
}

// A server believes a stored freelist: damage of it is named, and is never passed
// over because all data is well.
func TestDamagedFreelist(t *testing.T) {
	good, _ := fixture(t, "3.7-history")
	listed := withFreelist(t, good)
	if v := verify(t, "s.db", listed); v.Verdict != snapshot.Restorable || v.Content.FreelistPages == nil || *v.Content.FreelistPages < 10 {
		t.Fatalf("%s (%s) %s; %v free pages", v.Verdict, v.Class, v.Summary, v.Content.FreelistPages)
	}
	for name, damage := range freelistDamages() {
		b := bytes.Clone(listed)
		damage(b)
		id := binary.LittleEndian.Uint64(meta(b)[32:])
		for what, content := range map[string][]byte{"with its hash": rehash(b), "raw": b[:len(b)-32]} {
			v := verify(t, "s.db", content)
			if v.Verdict != snapshot.NotRestorable || v.Class != snapshot.ClassBadFreelist {
				t.Errorf("%s, %s: %s (%s) %s", name, what, v.Verdict, v.Class, v.Summary)
				continue
			}
			if f := v.Findings[0]; f.Class != "bad_freelist" || f.Page == nil || *f.Page != id || !strings.Contains(v.Summary, "all data pages are well") {
				t.Errorf("%s, %s: %s, finding %+v", name, what, v.Summary, f)
			}
		}
	}
}
