package result

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
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
	p, us := coarse(), int64(0)
	for b := h.folded; len(b) > 0; {
		step, n := binary.Uvarint(b)
		count, m := binary.Uvarint(b[n:])
		us += int64(step)                    //nolint:gosec // as Fold wrote it
		_ = p.RecordValues(us, int64(count)) //nolint:gosec // as Fold wrote it
		b = b[n+m:]
	}
	return p
}

// Fold puts a coarse histogram into half the memory, or less: the steps from
// value to value, and how many there are of each, in as few bytes as they need. It
// counts and adds as before, but each time takes some microseconds to unfold.
func (h *Histogram) Fold() {
	if h.packed == nil || h.packed.SignificantFigures() != coarseDigits || h.packed.TotalCount() == 0 {
		return
	}
	var b []byte
	before := int64(0)
	for us, count := range h.packed.ForEachBucket {
		if count > 0 {
			b = binary.AppendUvarint(b, uint64(us-before)) //nolint:gosec // in ascending order
			b = binary.AppendUvarint(b, uint64(count))     //nolint:gosec // a number of things
			before = us
		}
	}
	*h = Histogram{folded: slices.Clip(b)}
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
