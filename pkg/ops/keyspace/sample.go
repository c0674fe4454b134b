package keyspace

import (
	"cmp"
	"context"
	"math"
	"slices"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

const (
	// pilot is how many values of each group are read to learn how much they
	// differ. A group with fewer keys is read whole.
	pilot = 50
	// rounds is how often the sample is enlarged by what was learned.
	rounds = 3
)

// sampler reads values until the total is known well enough or the budget is
// used up.
type sampler struct {
	r         *reader
	t         *tally
	budget    int64 // bytes, what was read before included
	precision float64
	sink      progress.Sink
	groups    []*stratum
	any       bool // a value was read
}

func newSampler(r *reader, t *tally, o LookOptions, sink progress.Sink) *sampler {
	s := &sampler{r: r, t: t, budget: o.SampleBytes, precision: o.Precision, sink: sink, groups: t.sorted()}
	// Groups with many keys first: where the budget does not even reach for the
	// pilots, it goes where most of the keys are.
	slices.SortStableFunc(s.groups, func(a, b *stratum) int { return cmp.Compare(b.keys, a.keys) })
	return s
}

func (s *sampler) run(ctx context.Context) error {
	for _, g := range s.groups {
		if err := s.enlarge(ctx, g, min(pilot, g.keys)); err != nil {
			return err
		}
	}
	for range rounds {
		want := allocate(s.groups, s.precision, float64(s.budget-s.r.bytes))
		if want == nil {
			return nil
		}
		for i, g := range s.groups {
			if err := s.enlarge(ctx, g, want[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// enlarge reads on in a group until it has n values, the keys chosen of it are
// used up, or the budget is.
func (s *sampler) enlarge(ctx context.Context, g *stratum, n int64) error {
	n = min(n, int64(len(g.chosen)))
	for g.record.n < n {
		batch := s.batch(g, n-g.record.n)
		if batch == 0 {
			return nil
		}
		batched := g.chosen[g.record.n:][:batch]
		names := make([]string, len(batched))
		for i, c := range batched {
			names[i] = c.key
		}
		kvs, _, err := s.r.fetch(ctx, names)
		if fault.CauseOf(err) == cluster.CauseTooManyOps && batch > 1 {
			s.r.most = batch / 2
			continue
		}
		if err != nil {
			return err
		}
		if len(kvs) < len(names) {
			// Cannot happen: at one revision a key that was listed is there.
			return fault.New(fault.Internal, "a key that was listed has no value at the same revision")
		}
		s.any = true
		for i, kv := range kvs {
			g.measure(s.t.cellOf(g, string(kv.Key)), batched[i].window, kv)
			s.t.lease(kv)
		}
		s.sink.Event(progress.Event{Op: "read keys", Phase: "reading a sample of the values", Done: s.r.bytes, Unit: "bytes"})
	}
	return nil
}

// batch returns how many values to read at once: as many as should come to
// responseTarget, one where nothing is known of their size, none where the
// budget has no room for the next. One value is read whatever the budget: without
// any there is no estimate, and what is live would be taken for history.
func (s *sampler) batch(g *stratum, want int64) int64 {
	left := float64(s.budget - s.r.bytes)
	if g.record.n == 0 && (left > 0 || !s.any) {
		return 1
	}
	if left <= 0 || g.record.mean > left {
		return 0
	}
	// Values differ: reckon with the largest that was seen, but let one giant
	// among many small ones not slow the rest down to single reads.
	size := min(float64(g.largest), 8*g.record.mean)
	fit := max(1, int64(min(responseTarget, left)/size))
	return min(want, fit, s.r.most, 4*g.record.n) // grow step by step
}

// allocate says how many values of each group to have read in the end, so that
// the error of the total falls below precision × total: more of large groups and
// of those whose values differ much (Neyman's allocation). It is nil where the
// goal is reached, or nothing can be done for it with the bytes that are left.
func allocate(groups []*stratum, precision, left float64) []int64 {
	var total, variance, spread, squares float64
	for _, g := range groups {
		sum, v := g.total()
		total, variance = total+sum, variance+v
		sd := math.Sqrt(g.record.variance())
		spread += float64(g.keys) * sd
		squares += float64(g.keys) * sd * sd
	}
	goal := precision * total / z95 // a standard deviation
	if variance <= goal*goal || spread == 0 || left <= 0 {
		return nil
	}
	n := spread * spread / (goal*goal + squares)
	want := make([]int64, len(groups))
	var cost float64
	for i, g := range groups {
		share := float64(g.keys) * math.Sqrt(g.record.variance()) / spread
		want[i] = max(g.record.n, min(int64(math.Ceil(n*share)), int64(len(g.chosen))))
		cost += float64(want[i]-g.record.n) * g.record.mean
	}
	if cost == 0 {
		return nil
	}
	if scale := left / cost; scale < 1 {
		for i, g := range groups {
			want[i] = g.record.n + int64(float64(want[i]-g.record.n)*scale)
		}
	}
	return want
}
