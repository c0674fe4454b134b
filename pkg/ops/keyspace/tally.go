package keyspace

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"kvd/pkg/ops/kube/keys"
)

// Limits of what is kept apart, so that memory is bounded whatever is stored.
const (
	deepGroups   = 500    // up to here a key that is not Kubernetes' is grouped by two segments
	maxGroups    = 5_000  // up to here by one, then all into one
	maxCells     = 50_000 // pairs of a namespace and a group
	maxLeased    = 1_000  // leases that are told of
	maxReservoir = 8_192  // keys of a group from which the sample is taken
)

// tally counts keys by group and namespace, and holds a random choice of the
// keys of each group.
type tally struct {
	layout keys.Layout
	oldest int64
	rnd    *rand.Rand
	groups map[string]*stratum
	before []*stratum // strata that are complete; their groups may go on in others
	cells  map[cellKey]*cell
	capped bool
	leased map[int64]*Leased
}

// lease notes which lease a key is on, whose value was read.
func (t *tally) lease(kv *mvccpb.KeyValue) {
	if kv.Lease == 0 {
		return
	}
	if l := t.leased[kv.Lease]; l != nil {
		l.Keys++
	} else if len(t.leased) < maxLeased {
		t.leased[kv.Lease] = &Leased{kv.Lease, Name(kv.Key), 1}
	}
}

// stratum is a group of keys: the sample is taken from each on its own.
type stratum struct {
	prefix   string
	resource string
	keys     int64    // exact, unless loose
	loose    bool     // keys of groups below this one may have been counted here
	listed   int64    // how many of them were seen by name; all of them if that was not too many
	history  int64    // see Group.History
	chosen   []choice // of the listed ones, a uniform choice without replacement, in random order once shuffled
	record   moments  // of the records of the keys that were read
	pages    moments  // of what they take in pages
	windows  map[int]*moments
	largest  int64
}

// choice is a key that may be read, and the window it was listed in.
type choice struct {
	key    string
	window int
}

// cellKey is a namespace's part of a group.
type cellKey struct {
	group     *stratum
	namespace string
}

type cell struct {
	keys int64
	read moments
}

// moments are a mean and a variance in the making (Welford).
type moments struct {
	n       int64
	mean    float64
	squares float64
}

func (m *moments) add(x float64) {
	m.n++
	d := x - m.mean
	m.mean += d / float64(m.n)
	m.squares += d * (x - m.mean)
}

// variance is the sample's, 0 for fewer than two values.
func (m *moments) variance() float64 {
	if m.n < 2 {
		return 0
	}
	return m.squares / float64(m.n-1)
}

// total estimates the sum over all of a group's keys from the mean of those that
// were read. With a sample of n out of N keys the variance of N × mean is
// N² × (1 - n/N) × s²/n: nothing is left of it when all were read. A group of
// which nothing was read has no bound.
func (m *moments) total(keys int64) (sum, variance float64) {
	n, all := float64(m.n), float64(keys)
	if m.n == 0 {
		return 0, 0
	}
	return all * m.mean, all * all * max(0, 1-n/all) * m.variance() / n
}

// total estimates the group's bytes and the variance of that.
//
// Where not all keys were listed, the sample comes in windows of neighbours,
// which may be alike; then the differences between windows count, if they say
// that the total is known less well than the values on their own would.
func (s *stratum) total() (sum, variance float64) {
	sum, variance = s.record.total(s.keys)
	if s.listed == s.keys || len(s.windows) < 2 {
		return sum, variance
	}
	var between, weights float64
	for _, w := range s.windows {
		d := float64(w.n) * (w.mean - s.record.mean)
		between += d * d
		weights += float64(w.n)
	}
	n := float64(len(s.windows))
	mean := between * n / (n - 1) / (weights * weights) // of a ratio of window sums to window sizes
	return sum, max(variance, float64(s.keys)*float64(s.keys)*mean)
}

func newTally(l keys.Layout, oldest, seed int64) *tally {
	return &tally{layout: l, oldest: oldest, rnd: rand.New(rand.NewPCG(uint64(seed), 0)), //nolint:gosec // a sample, no secret
		groups: map[string]*stratum{}, cells: map[cellKey]*cell{}, leased: map[int64]*Leased{}}
}

// group finds or makes the group of a key.
func (t *tally) group(key string) *stratum {
	depth := 2
	if len(t.groups) >= deepGroups {
		depth = 1
	}
	prefix := groupPrefix(t.layout, key, depth)
	if s, ok := t.groups[prefix]; ok {
		return s
	}
	if depth == 1 {
		if s, ok := t.groups[groupPrefix(t.layout, key, 2)]; ok {
			return s
		}
	}
	if len(t.groups) >= maxGroups {
		prefix = ""
	}
	s, ok := t.groups[prefix]
	if !ok {
		s = &stratum{prefix: prefix}
		t.groups[prefix] = s
	}
	return s
}

// count takes a key into account, without its value.
func (t *tally) count(kv *mvccpb.KeyValue) (*stratum, *cell) {
	key := string(kv.Key)
	s := t.group(key)
	s.keys++
	s.listed++
	s.history += olderRevisions(kv.CreateRevision, kv.ModRevision, kv.Version, t.oldest)
	k, ok := t.layout.Parse(key)
	if !ok {
		return s, nil
	}
	if s.resource == "" {
		s.resource = k.GroupResource()
	}
	if k.Namespace == "" {
		return s, nil
	}
	ck := cellKey{s, k.Namespace}
	c := t.cells[ck]
	if c == nil {
		if len(t.cells) >= maxCells {
			t.capped = true
			return s, nil
		}
		c = &cell{}
		t.cells[ck] = c
	}
	c.keys++
	return s, c
}

// choose gives a key its chance to be in the sample (reservoir sampling).
func (t *tally) choose(s *stratum, key string, window int) {
	if len(s.chosen) < maxReservoir {
		s.chosen = append(s.chosen, choice{key, window})
	} else if i := t.rnd.Int64N(s.listed); i < maxReservoir {
		s.chosen[i] = choice{key, window}
	}
}

// shuffle puts the chosen keys into random order, so that any first part of them
// is a random sample.
func (t *tally) shuffle() {
	for _, s := range t.sorted() {
		t.rnd.Shuffle(len(s.chosen), func(i, j int) { s.chosen[i], s.chosen[j] = s.chosen[j], s.chosen[i] })
	}
}

// measure takes a value into account.
func (s *stratum) measure(c *cell, window int, kv *mvccpb.KeyValue) {
	size := recordSize(kv)
	if s.windows == nil {
		s.windows = map[int]*moments{}
	}
	if s.windows[window] == nil {
		s.windows[window] = &moments{}
	}
	s.windows[window].add(float64(size))
	s.record.add(float64(size))
	s.pages.add(inPages(size))
	s.largest = max(s.largest, size)
	if c != nil {
		c.read.add(float64(size))
	}
}

// cellOf finds the cell of a key that was counted.
func (t *tally) cellOf(s *stratum, key string) *cell {
	k, ok := t.layout.Parse(key)
	if !ok || k.Namespace == "" {
		return nil
	}
	return t.cells[cellKey{s, k.Namespace}]
}

// part ends all strata; what is counted from here on goes into new ones.
func (t *tally) part() {
	t.before = t.sorted()
	t.groups = map[string]*stratum{}
}

// settle gives the keys of strata of which nothing was listed to one of the same
// group, of which something was.
func (t *tally) settle() {
	var listed *stratum
	all := t.sorted()
	for pass := range 2 { // to the one before, else to the one behind
		listed = nil
		for i := range all {
			s := all[i]
			if pass == 1 {
				s = all[len(all)-1-i]
			}
			switch {
			case s.listed > 0:
				listed = s
			case listed != nil && listed.prefix == s.prefix:
				listed.keys, listed.loose = listed.keys+s.keys, listed.loose || s.loose
				s.keys = 0
			}
		}
	}
}

// sorted returns the strata by the prefix of their group, so that a seed gives
// one sample.
func (t *tally) sorted() []*stratum {
	out := slices.Clone(t.before)
	for _, s := range t.groups {
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b *stratum) int { return cmp.Compare(a.prefix, b.prefix) })
	return out
}

// z95 is the half-width of a 95 % interval in standard deviations.
const z95 = 1.96

// fill writes what was counted and measured into u.
func (t *tally) fill(u *Usage) {
	var live, pages, liveVar, pagesVar float64
	u.Exact = true
	for _, id := range slices.Sorted(maps.Keys(t.leased)) {
		u.Leased = append(u.Leased, *t.leased[id])
	}
	average := t.average()
	for _, s := range t.sorted() {
		if s.keys == 0 {
			continue
		}
		sum, v := s.total()
		if s.record.n == 0 { // the budget did not reach: as if it were like the rest, and no more is known
			sum = average * float64(s.keys)
			v = sum * sum
		}
		if s.record.n == 1 && s.keys > 1 { // one value does not tell how much they differ
			v = sum * sum
		}
		p, pv := s.pages.total(s.keys)
		if s.record.n == 1 && s.keys > 1 {
			pv = p * p
		}
		if s.record.n == 0 {
			p, pv = sum/fillPercent, v
		}
		if r := s.record.mean; r > 0 && s.listed < s.keys {
			pv = max(pv, v*(s.pages.mean/r)*(s.pages.mean/r))
		}
		live, liveVar, pages, pagesVar = live+sum, liveVar+v, pages+p, pagesVar+pv
		u.Keys += s.keys
		u.Listed += s.listed
		u.Exact = u.Exact && s.record.n == s.keys
		u.Groups = join(u.Groups, Group{Prefix: Name(s.prefix), Resource: s.resource, Keys: s.keys, Largest: s.largest,
			Bytes: Estimate{sum, z95 * math.Sqrt(v)}, Sampled: s.record.n, History: s.history, Loose: s.loose})
	}
	u.Live, u.InPages = Estimate{live, z95 * math.Sqrt(liveVar)}, Estimate{pages, z95 * math.Sqrt(pagesVar)}
	for i := range u.Groups {
		u.Groups[i].Share = ratio(u.Groups[i].Bytes.Bytes, live)
	}
	slices.SortStableFunc(u.Groups, func(a, b Group) int { return cmp.Compare(b.Bytes.Bytes, a.Bytes.Bytes) })
	u.Spaces, u.Partial = t.spaces(live), t.capped
}

// average is the mean size of a record over all that were read.
func (t *tally) average() float64 {
	var sum, n float64
	for _, s := range t.sorted() {
		sum, n = sum+float64(s.record.n)*s.record.mean, n+float64(s.record.n)
	}
	return ratio(sum, n)
}

// join appends a group, or adds it to the last one if that has the same prefix.
func join(groups []Group, g Group) []Group {
	if n := len(groups); n > 0 && groups[n-1].Prefix == g.Prefix {
		last := &groups[n-1]
		last.Keys, last.Sampled, last.History = last.Keys+g.Keys, last.Sampled+g.Sampled, last.History+g.History
		last.Bytes = Estimate{last.Bytes.Bytes + g.Bytes.Bytes, math.Hypot(last.Bytes.Error, g.Bytes.Error)}
		last.Largest, last.Loose = max(last.Largest, g.Largest), last.Loose || g.Loose
		return groups
	}
	return append(groups, g)
}

// enough is how many values of a namespace's part of a group must have been read
// for their own mean to be used and not the group's.
const enough = 10

func (t *tally) spaces(live float64) []Space {
	type sum struct {
		keys, bytes float64
	}
	sums, average := map[string]sum{}, t.average()
	for k, c := range t.cells {
		mean := k.group.record.mean
		switch {
		case c.read.n >= enough || c.read.n == c.keys:
			mean = c.read.mean
		case k.group.record.n == 0: // see fill
			mean = average
		}
		s := sums[k.namespace]
		all := float64(c.keys) * float64(k.group.keys) / float64(k.group.listed) // its part of those not listed
		sums[k.namespace] = sum{s.keys + all, s.bytes + mean*all}
	}
	out := make([]Space, 0, len(sums))
	for name, s := range sums {
		out = append(out, Space{Namespace: Name(name), Keys: int64(s.keys + 0.5), Bytes: int64(s.bytes + 0.5), Share: ratio(s.bytes, live)})
	}
	slices.SortFunc(out, func(a, b Space) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Namespace, b.Namespace))
	})
	return out
}

func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
