package metrics

import (
	"cmp"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Histogram counts observations by size. The unit is that of the metric; etcd's
// are seconds or bytes.
type Histogram struct {
	Count   uint64
	Sum     float64
	Buckets []Bucket // by rising bound, counts not falling; the last bound may be +Inf
}

// Bucket says how many observations were at most Le.
type Bucket struct {
	Le    float64
	Count uint64 // cumulative
}

// Histogram returns the sum of all histograms of that name which have these
// labels (nil: all), and whether there is any.
func (s *Sample) Histogram(name string, labels Labels) (Histogram, bool) {
	var sum Histogram
	found := false
	for _, m := range s.families[name].GetMetric() {
		if m.Histogram == nil || !labels.match(m) {
			continue
		}
		h := newHistogram(m.Histogram)
		if !found {
			sum, found = h, true
			continue
		}
		sum = sum.plus(h)
	}
	return sum, found
}

// newHistogram copies a histogram and puts right what a garbled one may have
// wrong: bounds out of order, counts that fall.
func newHistogram(d *dto.Histogram) Histogram {
	h := Histogram{Count: d.GetSampleCount(), Sum: d.GetSampleSum()}
	for _, b := range d.GetBucket() {
		if !math.IsNaN(b.GetUpperBound()) {
			h.Buckets = append(h.Buckets, Bucket{Le: b.GetUpperBound(), Count: b.GetCumulativeCount()})
		}
	}
	slices.SortFunc(h.Buckets, func(a, b Bucket) int { return cmp.Compare(a.Le, b.Le) })
	for i := 1; i < len(h.Buckets); i++ {
		h.Buckets[i].Count = max(h.Buckets[i].Count, h.Buckets[i-1].Count)
	}
	return h
}

// at returns how many observations were at most le, as far as the bounds tell.
func (h Histogram) at(le float64) uint64 {
	var n uint64
	for _, b := range h.Buckets {
		if b.Le > le {
			break
		}
		n = b.Count
	}
	return n
}

func (h Histogram) plus(o Histogram) Histogram {
	out := Histogram{Count: h.Count + o.Count, Sum: h.Sum + o.Sum}
	for _, b := range h.Buckets {
		out.Buckets = append(out.Buckets, Bucket{Le: b.Le, Count: b.Count + o.at(b.Le)})
	}
	return out
}

// Since returns the observations made after the older state of the same
// histogram; false if the counts went back, as they do when a server restarts.
func (h Histogram) Since(older Histogram) (Histogram, bool) {
	if h.Count < older.Count {
		return Histogram{}, false
	}
	out := Histogram{Count: h.Count - older.Count, Sum: h.Sum - older.Sum}
	for _, b := range h.Buckets {
		was := older.at(b.Le)
		if b.Count < was {
			return Histogram{}, false
		}
		out.Buckets = append(out.Buckets, Bucket{Le: b.Le, Count: b.Count - was})
	}
	return out, true
}

// Mean returns the mean observation, NaN if there is none.
func (h Histogram) Mean() float64 {
	if h.Count == 0 {
		return math.NaN()
	}
	return h.Sum / float64(h.Count)
}

// Quantile estimates the q-quantile (0 ≤ q ≤ 1) as Prometheus does, by assuming
// that observations are spread evenly within a bucket: the error is at most the
// width of that bucket. What lies above the last finite bound is reported as
// that bound. NaN if there are no observations or q is outside 0…1.
func (h Histogram) Quantile(q float64) float64 {
	var total uint64
	if n := len(h.Buckets); n > 0 {
		total = max(h.Count, h.Buckets[n-1].Count)
	}
	if total == 0 || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	rank := q * float64(total)
	lower, below := 0.0, uint64(0)
	for _, b := range h.Buckets {
		if math.IsInf(b.Le, 1) {
			break
		}
		if float64(b.Count) >= rank && b.Count > below {
			if b.Le <= 0 { // a bucket without a lower bound
				return b.Le
			}
			return lower + (b.Le-lower)*(rank-float64(below))/float64(b.Count-below)
		}
		if !math.IsInf(b.Le, -1) {
			lower = max(b.Le, 0)
		}
		below = b.Count
	}
	return lower
}
