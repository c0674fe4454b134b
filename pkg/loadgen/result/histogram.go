package result

import (
	"encoding/json"
	"fmt"
	"math"
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
type Histogram struct{ packed *hdrhistogram.PackedHistogram }

// Coarse returns an empty histogram that takes a fifth of the memory: for rows, of
// which there are many.
func Coarse() Histogram {
	return Histogram{hdrhistogram.NewPacked(1, MaxLatency.Microseconds(), coarseDigits)}
}

func (h *Histogram) ready() *hdrhistogram.PackedHistogram {
	if h.packed == nil {
		h.packed = hdrhistogram.NewPacked(1, MaxLatency.Microseconds(), digits)
	}
	return h.packed
}

// Trim gives back memory that a histogram kept for more.
func (h *Histogram) Trim() {
	if h.packed != nil {
		h.packed.Compact()
	}
}

// Record counts one duration, in whole microseconds and at least one. What is
// longer than MaxLatency counts as that.
func (h *Histogram) Record(d time.Duration) {
	us := min(max(d.Microseconds(), 1), MaxLatency.Microseconds())
	_ = h.ready().RecordValue(us) // fails outside the range only
}

// Add counts all of o as well.
func (h *Histogram) Add(o Histogram) {
	if o.packed != nil {
		h.ready().Merge(o.packed)
	}
}

// Count returns how many durations were recorded.
func (h Histogram) Count() int64 {
	if h.packed == nil {
		return 0
	}
	return h.packed.TotalCount()
}

// Quantile returns the smallest duration that a share of q (0 to 1) of all does
// not exceed; 0 if there are none.
func (h Histogram) Quantile(q float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.packed.ValueAtPercentile(100*q)) * time.Microsecond
}

// Max returns the longest duration, 0 if there is none.
func (h Histogram) Max() time.Duration { return h.Quantile(1) }

// Mean returns the mean duration, NaN seconds as 0 if there is none.
func (h Histogram) Mean() time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.packed.Mean() * float64(time.Microsecond))
}

// AtLeast returns how many durations are d or longer, to the histogram's own
// precision.
func (h Histogram) AtLeast(d time.Duration) int64 {
	var n int64
	if h.packed == nil {
		return 0
	}
	for us, count := range h.packed.ForEachBucket {
		if us >= d.Microseconds() {
			n += count
		}
	}
	return n
}

// Clone returns a copy that shares nothing with h.
func (h Histogram) Clone() Histogram {
	if h.packed == nil {
		return Histogram{}
	}
	return Histogram{h.packed.Clone()}
}

// MarshalJSON writes the compressed V2 form of HdrHistogram in base64, which
// other tools read as well; "" if there is nothing.
func (h Histogram) MarshalJSON() ([]byte, error) {
	if h.Count() == 0 {
		return []byte(`""`), nil
	}
	b, err := h.packed.Encode()
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
