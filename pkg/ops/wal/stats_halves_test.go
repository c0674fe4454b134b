package wal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// randomLog is a log of several segments with requests of all sorts, some of which a
// later leader replaced.
func randomLog(t *testing.T, seed uint64) *logged {
	t.Helper()
	l, rnd := newLog(t), rand.New(rand.NewPCG(seed, 1))
	for range 120 {
		key := fmt.Sprintf("/registry/pods/ns%d/p%d", rnd.IntN(5), rnd.IntN(40))
		r := put(key, strings.Repeat("v", rnd.IntN(9000)), rnd.Int64N(4))
		switch rnd.IntN(6) {
		case 0:
			r = txn(true, put(key, "short", 0), del(key, ""))
		case 1:
			r = del("/registry/minions/", "/registry/minions0")
		case 2:
			r.Header = &pb.RequestHeader{ID: 1, Username: fmt.Sprint("user", rnd.IntN(3))}
		case 3:
			r = put(fmt.Sprintf("other%d", rnd.IntN(30)), "x", 0)
		}
		l.add(l.next-1, r, put(key, "again", 0))
		if back := rnd.Uint64N(12); back < 4 && l.next > 10 {
			l.term, l.next = l.term+1, l.next-back
		}
	}
	return l
}

// oneByOne counts a log from its beginning to its end.
func oneByOne(t *testing.T, dir string, o StatsOptions) *Stats {
	t.Helper()
	c := newCounter(o)
	if _, err := read(t.Context(), dir, func(r *Record) error { c.record(r); return nil }, nil); err != nil {
		t.Fatal(err)
	}
	return c.finish()
}

// Two processors that read a half of the log each count what one would, wherever the
// halves meet.
func TestStatsInHalves(t *testing.T) {
	within, parted := 0, 0
	for seed := range uint64(20) {
		l := randomLog(t, seed)
		for _, top := range []int{0, 3} {
			o := DefaultStatsOptions()
			o.Top = top
			opened, err := openLog(l.dir)
			if err != nil {
				t.Fatal(err)
			}
			if at, ok := opened.middle(t.Context()); ok && at.offset > 0 {
				within++
			}
			c := opened.halves(t.Context(), o)
			if c == nil || len(opened.segments) < 3 {
				t.Fatalf("seed %d: %d segments, and not in halves", seed, len(opened.segments))
			}
			if got, want := c.finish(), oneByOne(t, l.dir, o); !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d, top %d: %+v\nwant %+v", seed, top, got, want)
			}
			for i := range opened.segments { // each place where the log can be parted
				first, second := newHalf(o), newHalf(o)
				at, ok := opened.behind(t.Context(), i, 2000)
				if !ok { // the last one may have less
					continue
				}
				parted++
				second.count(t.Context(), &opened, at, place{segment: len(opened.segments)})
				first.count(t.Context(), &opened, place{}, at)
				if !first.good || !second.good || first.r.off != at.offset || first.r.crc != at.crc {
					t.Fatalf("seed %d, parted at %+v: %+v, %+v", seed, at, first.r, second.good)
				}
				first.join(second.counter)
				if got, want := first.finish(), oneByOne(t, l.dir, o); !reflect.DeepEqual(got, want) {
					t.Errorf("seed %d, top %d, parted at %+v: %+v\nwant %+v", seed, top, at, got, want)
				}
			}
			opened.close()
		}
	}
	if within < 20 || parted < 80 {
		t.Errorf("%d of 40 logs were parted within a segment, and %d times at a place of choice", within, parted)
	}
}

// A value that holds a piece of a log is no place to begin at, whatever it looks like.
func TestHalvesOfALogInALog(t *testing.T) {
	inner := randomLog(t, 3)
	segments, err := Segments(inner.dir)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(inner.dir, segments[1].Name))
	if err != nil {
		t.Fatal(err)
	}
	misled := 0
	for shift := range 8 {
		l := newLog(t)
		for i := range 4 {
			l.add(uint64(i), put("k", strings.Repeat("x", shift)+string(content), 0))
		}
		opened, err := openLog(l.dir)
		if err != nil {
			t.Fatal(err)
		}
		if opened.halves(t.Context(), DefaultStatsOptions()) == nil {
			misled++
		}
		opened.close()
		got, err := GatherStats(t.Context(), l.dir, DefaultStatsOptions())
		if err != nil {
			t.Fatal(err)
		}
		got.Dir, got.Live = "", ""
		if want := oneByOne(t, l.dir, DefaultStatsOptions()); !reflect.DeepEqual(got, want) {
			t.Errorf("shifted by %d: %+v\nwant %+v", shift, got, want)
		}
	}
	if misled == 0 {
		t.Error("no log was parted within a value, which is what this is about")
	}
}

// Where the log is not as it should be, wherever that is, nothing is told of halves.
func TestNoHalvesOfDamage(t *testing.T) {
	l, other := randomLog(t, 1), randomLog(t, 2)
	segments, err := Segments(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	counted := func() bool {
		o, err := openLog(l.dir)
		defer o.close()
		return err == nil && o.halves(t.Context(), DefaultStatsOptions()) != nil
	}
	for i, seg := range segments {
		path := filepath.Join(l.dir, seg.Name)
		sound, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !counted() {
			t.Fatal("the sound log is not counted in halves")
		}
		used := bytes.LastIndexFunc(sound, func(r rune) bool { return r != 0 }) + 1
		for name, damaged := range map[string][]byte{
			"a byte":      append(append(bytes.Clone(sound[:used/2]), sound[used/2]^1), sound[used/2+1:]...),
			"cut short":   sound[:used-9],
			"a lost size": append(append(bytes.Clone(sound[:8]), make([]byte, 8)...), sound[16:]...),
		} {
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if counted() {
				t.Errorf("segment %d, %s: counted in halves", i, name)
			}
		}
		if err := os.WriteFile(path, sound, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	strange, err := Segments(other.dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range min(len(strange), len(segments)) { // sound by themselves
		if content, err := os.ReadFile(filepath.Join(other.dir, strange[i].Name)); err != nil || i < len(segments)/2+1 {
			continue
		} else if err := os.WriteFile(filepath.Join(l.dir, segments[i].Name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if counted() {
		t.Error("halves of two logs are counted as one")
	}
}

// Of more keys than are kept, none has more than is told, or less than that and what
// may be missing.
func TestHalvesOfManyKeys(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	var first, second heavy[struct{}]
	want := map[string]int64{}
	for i := range 5 * maxCounted {
		h := &first
		if i%2 == 1 {
			h = &second
		}
		key := fmt.Sprint("k", int(rnd.ExpFloat64()*maxCounted))
		c, hash := h.get([]byte(key))
		if c == nil {
			c = h.put([]byte(key), hash, struct{}{})
		}
		c.add(10)
		want[key] += 10
	}
	first.join(&second)
	if first.n > maxCounted || first.missed.Bytes == 0 {
		t.Errorf("%d keys, missed %+v", first.n, first.missed)
	}
	for c := range first.each() {
		if c.Bytes > want[c.k] || c.Bytes+first.missed.Bytes < want[c.k] {
			t.Fatalf("%s: %d bytes and %d that may be missing, of %d", c.k, c.Bytes, first.missed.Bytes, want[c.k])
		}
		delete(want, c.k)
	}
	for k, n := range want {
		if n > first.missed.Bytes {
			t.Fatalf("%s is missing, and has %d bytes, more than %d", k, n, first.missed.Bytes)
		}
	}
}

// Names that did not fit into the second half may be names of the first.
func TestNoHalvesOfTooManyGroups(t *testing.T) {
	c := newCounter(DefaultStatsOptions())
	for i := range maxGroups + 1 {
		if !c.joinable() {
			t.Fatalf("not to be joined after %d groups", i)
		}
		c.op(&Op{Op: PutType, Key: fmt.Appendf(nil, "/%d/x", i), Bytes: 1}, &writing{})
	}
	if c.joinable() {
		t.Error("to be joined, and some were counted together")
	}
}
