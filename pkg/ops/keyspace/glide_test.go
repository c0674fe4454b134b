package keyspace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

// glideOver counts off keys of a sorted list as a lister does, and returns how
// many ranges that took and how many keys were looked at in vain.
func glideOver(t *testing.T, keys []string, at int, limit string, want int64) (skipped int64, next, ranges int, wasted int64) {
	t.Helper()
	index := func(k string) int { return sort.SearchStrings(keys, k) }
	count := func(from, end string) int64 {
		if end == allEnd {
			return int64(len(keys) - index(from))
		}
		return int64(index(end) - index(from))
	}
	g := newGlide(keys[at], limit)
	for skipped < want && !g.done() {
		end := g.next()
		if end != allEnd && end < g.cur {
			t.Fatalf("range from %q to %q", g.cur, end)
		}
		if ranges++; ranges > 100_000 {
			t.Fatalf("does not end: %+v", g)
		}
		n := count(g.cur, end)
		if n <= 1 || skipped+n <= 2*want {
			skipped += n
			g.accept(end)
			continue
		}
		wasted += n
		if !g.narrow() {
			g.enter(keys[index(g.cur)])
			skipped++
		}
	}
	if g.cur == allEnd {
		return skipped, len(keys), ranges, wasted
	}
	return skipped, index(g.cur), ranges, wasted
}

func TestGlide(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	sets := map[string]func(i int) string{
		"decimal":     func(i int) string { return fmt.Sprintf("/registry/pods/ns-%d/web-%d", i%7, i) },
		"padded":      func(i int) string { return fmt.Sprintf("/registry/events/ns-%02d/obj-%05d.17a0b1c2d3e4f506", i%30, i) },
		"one of each": func(i int) string { return fmt.Sprintf("/registry/events/default/web.%016x", i) },
		"hashes": func(i int) string {
			return fmt.Sprintf("/registry/x.io/reports/default/%x-%d", uint32(i)*2654435761, i)
		},
		"binary": func(int) string {
			return "a" + string([]byte{byte(rnd.Uint32()), byte(rnd.Uint32()), 0xff, byte(rnd.Uint32())})
		},
		"long 0xff": func(i int) string { return "\xff\xff\xff\xff" + fmt.Sprint(i) },
		"prefixes":  func(i int) string { return string(slices.Repeat([]byte{'a'}, 1+i%300)) + fmt.Sprint(i/300) },
	}
	for name, make := range sets {
		var keys []string
		for i := range 20_000 {
			keys = append(keys, make(i))
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		for _, want := range []int64{1, 130, 3000} {
			var most int
			var worst int64
			skips := 0
			for at := 0; at < len(keys)-1; {
				skipped, next, ranges, wasted := glideOver(t, keys, at, allEnd, want)
				if int64(next-at-1) != skipped {
					t.Fatalf("%s: said it skipped %d keys, was at %d, is at %d", name, skipped, at, next)
				}
				if skipped > 2*want+1 || (skipped < want && next < len(keys)) {
					t.Fatalf("%s: skipped %d, want %d to %d", name, skipped, want, 2*want)
				}
				most, worst, skips = max(most, ranges), max(worst, wasted), skips+1
				at = next + 200 // a window
			}
			t.Logf("%-12s want %5d: %d skips, at most %d ranges and %d keys counted in vain", name, want, skips, most, worst)
			bound := 100
			if name == "prefixes" {
				bound = 1000 // each key the beginning of the next: as bad as it gets
			}
			if most > bound {
				t.Errorf("%s: %d ranges for one skip of %d", name, most, want)
			}
		}
	}
}
