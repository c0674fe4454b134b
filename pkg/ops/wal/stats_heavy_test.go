package wal

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// As long as all fit, everything is counted as in a map, and told as it came.
func TestHeavyCountsAsAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	var h heavy[int]
	want := map[string]Amount{}
	var came []string
	for i := range 4 * maxCounted {
		key := []byte(fmt.Sprint("/k/", rnd.IntN(maxCounted)))
		c, hash := h.get(key)
		if _, known := want[string(key)]; known != (c != nil) {
			t.Fatalf("%s: found %t", key, c != nil)
		}
		if c == nil {
			c = h.put(key, hash, i)
			came = append(came, string(key))
		}
		c.add(int64(i))
		a := want[string(key)]
		a.add(int64(i))
		want[string(key)] = a
		key[0] = 'x' // whose memory is the caller's
	}
	if h.n != len(want) || h.missed != (Amount{}) {
		t.Fatalf("%d are there, of %d, missed %+v", h.n, len(want), h.missed)
	}
	i := 0
	for c := range h.each() {
		if c.k != came[i] || c.Amount != want[c.k] {
			t.Fatalf("number %d is %s with %+v, want %s with %+v", i, c.k, c.Amount, came[i], want[came[i]])
		}
		i++
	}
	if i != h.n {
		t.Errorf("%d were told, of %d", i, h.n)
	}
}

// Of too many, the quarter with the most bytes stays, of those with as much what came
// first, and the most that one of the others had is told.
func TestHeavyKeepsTheLargest(t *testing.T) {
	for name, size := range map[string]func(i int) int64{
		"all alike":     func(int) int64 { return 7 },
		"one larger":    func(i int) int64 { return 7 + int64(i/(maxCounted-1)) },
		"few sizes":     func(i int) int64 { return int64(i * 7919 % 5) },
		"all different": func(i int) int64 { return int64(i * 7919 % maxCounted) },
	} {
		var h heavy[int]
		type one struct {
			key string
			n   int64
		}
		var all []one
		for i := range maxCounted {
			key := fmt.Sprint("/k/", i)
			_, hash := h.get([]byte(key))
			h.put([]byte(key), hash, i).add(size(i))
			all = append(all, one{key, size(i)})
		}
		slices.SortStableFunc(all, func(a, b one) int { return cmp.Compare(b.n, a.n) })
		want := map[string]int64{"one more": 0}
		for _, x := range all[:maxCounted/4] {
			want[x.key] = x.n
		}
		_, hash := h.get([]byte("one more"))
		h.put([]byte("one more"), hash, 0)
		if h.n != len(want) || h.missed != (Amount{Count: 1, Bytes: all[maxCounted/4].n}) {
			t.Errorf("%s: %d are left of %d, missed %+v, want %d bytes", name, h.n, len(want), h.missed, all[maxCounted/4].n)
		}
		for i, chunk := range h.chunks[:cap(h.chunks)] {
			for j, c := range chunk[:cap(chunk)] {
				if gone := i*heavyChunk+j >= h.n; gone && c.k != "" {
					t.Fatalf("%s: %s is gone, and still in memory", name, c.k)
				}
			}
		}
		for key, n := range want {
			if c, _ := h.get([]byte(key)); c == nil || c.Bytes != n {
				t.Errorf("%s: %s is %+v, want %d bytes", name, key, c, n)
			}
		}
	}
}

// Keys that are large are dropped before they fill the memory, be there ever so few.
func TestHeavyOfLargeKeys(t *testing.T) {
	var h heavy[struct{}]
	for i := range 20 {
		key := bytes.Repeat([]byte{byte('a' + i)}, 3<<20)
		c, hash := h.get(key)
		if c != nil {
			t.Fatal("found before it came")
		}
		h.put(key, hash, struct{}{}).add(int64(i))
		if c, _ = h.get(key); c == nil || c.k != string(key) || h.text > maxKeyText {
			t.Fatalf("key %d: found %t, %d bytes are kept", i, c != nil, h.text)
		}
	}
	if h.missed.Count == 0 {
		t.Error("nothing is missed")
	}
}
