package wal

import (
	"fmt"
	"math/rand/v2"
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
		c := h.get(key)
		if _, known := want[string(key)]; known != (c != nil) {
			t.Fatalf("%s: found %t", key, c != nil)
		}
		if c == nil {
			c = h.put(key, i)
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
