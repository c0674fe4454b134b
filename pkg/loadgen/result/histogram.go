package result

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What a Histogram can tell apart: microseconds up to MaxLatency, and beyond
// 2 ms one part in a thousand; a coarse one, one in a hundred from 200 µs on.
const (
	MaxLatency   = time.Hour
	digits       = 3
	coarseDigits = 2
)

// Histogram counts durations. Two of them can be added without losing anything,
// which percentiles can't. It is not safe for concurrent use. The zero value is
// empty and ready.
type Histogram struct {
	packed *hdrhistogram.PackedHistogram
	folded []byte // instead of it, of a coarse one: see Fold
}

// Coarse returns an empty histogram that takes a fifth of the memory: for rows, of
// which there are many.
func Coarse() Histogram {
	return Histogram{packed: coarse()}
}

func coarse() *hdrhistogram.PackedHistogram {
	return hdrhistogram.NewPacked(1, MaxLatency.Microseconds(), coarseDigits)
}

// ready returns what can be added to.
func (h *Histogram) ready() *hdrhistogram.PackedHistogram {
	switch {
	case h.folded != nil:
		*h = Histogram{packed: h.read()}
	case h.packed == nil:
		h.packed = hdrhistogram.NewPacked(1, MaxLatency.Microseconds(), digits)
	}
	return h.packed
}

// read returns what can be read from, nil if there is nothing.
func (h Histogram) read() *hdrhistogram.PackedHistogram {
	if h.folded == nil {
		return h.packed
	}
	p, i := coarse(), uint64(0)
	for b := h.folded; len(b) > 0; {
		v, n := binary.Uvarint(b)
		i += v >> countBits
		count := v & countMask
		if b = b[n:]; count == countMask {
			more, n := binary.Uvarint(b)
			count, b = count+more, b[n:]
		}
		_ = p.RecordValues(bucketStart(i), int64(count)) //nolint:gosec // as Fold wrote it
	}
	return p
}

// In a folded histogram, the low bits of a bucket's first number are how many it
// counts; where it is as many as they can say, or more, the rest follows.
const (
	countBits = 3
	countMask = 1<<countBits - 1
)

// Fold puts a coarse histogram into a third of the memory, or less: for each bucket that
// counts something, how many buckets it is after the one before and how much it
// counts, mostly in one byte. It counts and adds as before, but each time takes
// some microseconds to unfold.
func (h *Histogram) Fold() {
	if h.packed == nil || h.packed.SignificantFigures() != coarseDigits || h.packed.TotalCount() == 0 {
		return
	}
	var b []byte
	before := uint64(0)
	for us, n := range h.packed.ForEachBucket {
		if n == 0 {
			continue
		}
		i, count := bucket(us), uint64(n)
		b = binary.AppendUvarint(b, (i-before)<<countBits|min(count, countMask))
		if count >= countMask {
			b = binary.AppendUvarint(b, count-countMask)
		}
		before = i
	}
	*h = Histogram{folded: bytes.Clone(b)}
}

// halfBuckets is how many buckets a coarse histogram has from a power of two to the
// next: two digits need two hundred steps, and HdrHistogram takes the next power of
// two, of which the upper half is used ("sub-buckets" in its documentation).
const halfBuckets = 128

// bucket returns the bucket of a coarse histogram that a value in microseconds
// falls into, counted from 0.
func bucket(us int64) uint64 {
	v := uint64(max(us, 0)) //nolint:gosec // not below 0
	shift := max(0, bits.Len64(v/halfBuckets)-1)
	return uint64(shift)*halfBuckets + v>>shift
}

// bucketStart returns the first value that falls into a bucket.
func bucketStart(i uint64) int64 {
	shift := max(i/halfBuckets, 1) - 1
	return int64((i - shift*halfBuckets) << shift) //nolint:gosec // of a bucket that there is
}

// Record counts one duration, in whole microseconds and at least one. What is
// longer than MaxLatency counts as that.
func (h *Histogram) Record(d time.Duration) {
	us := min(max(d.Microseconds(), 1), MaxLatency.Microseconds())
	_ = h.ready().RecordValue(us) // fails outside the range only
}

// Add counts all of o as well.
func (h *Histogram) Add(o Histogram) {
	if p := o.read(); p != nil {
		h.ready().Merge(p)
	}
}

// Count returns how many durations were recorded.
func (h Histogram) Count() int64 {
	if p := h.read(); p != nil {
		return p.TotalCount()
	}
	return 0
}

// Quantile returns the smallest duration that a share of q (0 to 1) of all does
// not exceed; 0 if there are none.
func (h Histogram) Quantile(q float64) time.Duration {
	p := h.read()
	if p == nil || p.TotalCount() == 0 {
		return 0
	}
	return time.Duration(p.ValueAtPercentile(100*q)) * time.Microsecond
}

// Max returns the longest duration, 0 if there is none.
func (h Histogram) Max() time.Duration { return h.Quantile(1) }

// Mean returns the mean duration, NaN seconds as 0 if there is none.
func (h Histogram) Mean() time.Duration {
	p := h.read()
	if p == nil || p.TotalCount() == 0 {
		return 0
	}
	return time.Duration(p.Mean() * float64(time.Microsecond))
}

// AtLeast returns how many durations are d or longer, to the histogram's own
// precision.
func (h Histogram) AtLeast(d time.Duration) int64 {
	var n int64
	p := h.read()
	if p == nil {
		return 0
	}
	for us, count := range p.ForEachBucket {
		if us >= d.Microseconds() {
			n += count
		}
	}
	return n
}

// Clone returns a copy that shares nothing with h.
func (h Histogram) Clone() Histogram {
	if h.packed == nil {
		return Histogram{folded: h.folded} // which nothing changes
	}
	return Histogram{packed: h.packed.Clone()}
}

// MarshalJSON writes the compressed V2 form of HdrHistogram in base64, which
// other tools read as well; "" if there is nothing.
func (h Histogram) MarshalJSON() ([]byte, error) {
	p := h.read()
	if p == nil || p.TotalCount() == 0 {
		return []byte(`""`), nil
	}
	b, err := p.Encode()
	if err != nil {
		return nil, err
	}
	return json.Marshal(string(b))
}

// UnmarshalJSON reads what MarshalJSON writes. A histogram of another range or
// precision is an error: it could not be added without loss.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	*h = Histogram{}
	if text == "" {
		return nil
	}
	p, err := hdrhistogram.DecodePacked([]byte(text))
	if err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	if n := p.SignificantFigures(); n != digits && n != coarseDigits || p.LowestTrackableValue() != 1 || p.HighestTrackableValue() != MaxLatency.Microseconds() ||
		p.TotalCount() == math.MaxInt64 { // as the library marks one that counts more than can be counted
		return fmt.Errorf("histogram: not from 1 µs to %s with %d or %d digits", MaxLatency, coarseDigits, digits)
	}
	h.packed = p
	return nil
}
