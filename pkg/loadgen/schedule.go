package loadgen

import (
	"container/heap"
	"encoding/hex"
	"hash/fnv"
	"math"
	"time"
)

// pace computes when an actor's turns are due. Each interval is a function of
// seed, name and number alone, so that no answer of the server and no other actor
// has a say in it.
type pace struct {
	key     uint64
	first   time.Duration
	period  time.Duration
	jitter  float64
	turns   int64
	sliding bool // the next turn is due a step after the answer to the last
}

func newPace(o Options, name string, s Schedule) pace {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	p := pace{key: mix(o.Seed ^ h.Sum64()), jitter: s.Jitter, turns: s.Turns, sliding: s.Sliding && o.Arrival == Kubelet}
	p.period = scaled(s.Period, o.TimeScale)
	p.first = scaled(s.Delay, o.TimeScale)
	if p.period <= 0 {
		p.turns = 1
	}
	if !s.Together {
		p.first += time.Duration(p.random(0)*float64(p.period)) + time.Duration(p.random(math.MaxUint64)*float64(o.Ramp))
	}
	return p
}

// next returns when the turn behind the n-th (counted from 1) is due, and whether
// there is one.
func (p pace) next(n int64, due time.Duration) (time.Duration, bool) {
	if p.sliding || p.ends(n) {
		return 0, false
	}
	return due + p.step(n), true
}

// ends reports that the n-th turn is the last.
func (p pace) ends(n int64) bool { return p.turns > 0 && n >= p.turns }

// step is the time from the n-th turn to the one behind it.
func (p pace) step(n int64) time.Duration {
	return max(1, time.Duration(float64(p.period)*(1+p.jitter*p.random(uint64(n)))))
}

// random returns the n-th number of the actor, at least 0 and less than 1.
func (p pace) random(n uint64) float64 { return float64(mix(p.key+n*goldenGamma)>>11) / (1 << 53) }

// goldenGamma and the constants of mix are those of SplitMix64 (Steele, Lea,
// Flood: Fast Splittable Pseudorandom Number Generators, 2014).
const goldenGamma = 0x9e3779b97f4a7c15

func mix(z uint64) uint64 {
	z += goldenGamma
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func scaled(d time.Duration, scale float64) time.Duration {
	if scale == 1 || scale <= 0 {
		return d
	}
	return time.Duration(float64(d) / scale)
}

// timeline has the next turn of each actor, the earliest first; of those due at
// the same moment, the actor that comes first in the cast.
type timeline struct {
	paces []pace
	queue []upcoming
}

type upcoming struct {
	due   time.Duration // since the run began
	actor int
	n     int64 // which turn of the actor, counted from 1
}

func newTimeline(o Options, actors []Actor) *timeline {
	t := &timeline{paces: make([]pace, len(actors)), queue: make([]upcoming, len(actors))}
	for i, a := range actors {
		t.paces[i] = newPace(o, a.Name, a.Schedule)
		t.queue[i] = upcoming{due: t.paces[i].first, actor: i, n: 1}
	}
	heap.Init(t)
	return t
}

// peek returns the next turn, and whether there is one.
func (t *timeline) peek() (upcoming, bool) {
	if len(t.queue) == 0 {
		return upcoming{}, false
	}
	return t.queue[0], true
}

// advance goes on to the turn behind the next.
func (t *timeline) advance() {
	u := t.queue[0]
	due, more := t.paces[u.actor].next(u.n, u.due)
	if !more {
		heap.Pop(t)
		return
	}
	t.queue[0] = upcoming{due: due, actor: u.actor, n: u.n + 1}
	heap.Fix(t, 0)
}

// Len, Less, Swap, Push and Pop make it a heap.Interface.
func (t *timeline) Len() int { return len(t.queue) }

// Less orders by time, then by the cast.
func (t *timeline) Less(i, j int) bool {
	a, b := t.queue[i], t.queue[j]
	return a.due < b.due || a.due == b.due && a.actor < b.actor
}

// Swap exchanges two entries.
func (t *timeline) Swap(i, j int) { t.queue[i], t.queue[j] = t.queue[j], t.queue[i] }

// Push appends an entry.
func (t *timeline) Push(x any) { t.queue = append(t.queue, x.(upcoming)) } //nolint:forcetypeassert // heap's own protocol

// Pop removes the last entry.
func (t *timeline) Pop() any {
	u := t.queue[len(t.queue)-1]
	t.queue = t.queue[:len(t.queue)-1]
	return u
}

// What Fingerprint looks at, for schedules without an end.
const (
	fingerprintTurns = 1 << 20
	fingerprintSpan  = time.Hour
)

// Fingerprint is a hash over who acts when, up to the end of the run (and to an
// hour or a million turns at most). Two runs with the same one had the same
// arrivals; under the arrival Kubelet it is over the first turn of those who slide.
func Fingerprint(o Options, actors []Actor) string {
	until := o.Warmup + o.Duration
	if o.Duration == 0 || until > fingerprintSpan {
		until = fingerprintSpan
	}
	sum := fnv.New128a()
	for _, a := range actors {
		_, _ = sum.Write([]byte(a.Name + "\x00"))
	}
	t := newTimeline(o, actors)
	var b [16]byte
	for range fingerprintTurns {
		u, ok := t.peek()
		if !ok || u.due >= until {
			break
		}
		for i := range 8 {
			b[i], b[8+i] = byte(u.due>>(8*i)), byte(u.actor>>(8*i))
		}
		_, _ = sum.Write(b[:])
		t.advance()
	}
	return hex.EncodeToString(sum.Sum(nil))
}
