package loadgen

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

func kubelets(n int) []Actor {
	actors := make([]Actor, n)
	for i := range actors {
		actors[i] = Actor{Name: fmt.Sprintf("node-%d", i), Schedule: Schedule{Period: 10 * time.Second, Jitter: 0.04}}
	}
	return actors
}

// dues lists who is due when, up to a time.
func dues(seed uint64, actors []Actor, scale float64, until time.Duration) (out []upcoming) {
	o := DefaultOptions()
	o.Seed, o.TimeScale = seed, scale
	t := newTimeline(o, actors)
	for {
		u, ok := t.peek()
		if !ok || u.due >= until {
			return out
		}
		out = append(out, u)
		t.advance()
	}
}

func fingerprint(seed uint64, actors []Actor, scale float64, until time.Duration) string {
	o := DefaultOptions()
	o.Seed, o.TimeScale, o.Warmup, o.Duration = seed, scale, 0, until
	return Fingerprint(o, actors)
}

// The same seed gives the same schedule, to the nanosecond, and another one
// another; nobody's depends on who else is there.
func TestScheduleFollowsFromTheSeed(t *testing.T) {
	actors := kubelets(200)
	a, b := dues(7, actors, 1, time.Minute), dues(7, actors, 1, time.Minute)
	if !slices.Equal(a, b) {
		t.Fatal("two timelines with one seed differ")
	}
	if !slices.IsSortedFunc(a, func(x, y upcoming) int { return int(x.due - y.due) }) {
		t.Error("turns are not in the order of time")
	}
	if fa, fb := fingerprint(7, actors, 1, time.Minute), fingerprint(7, actors, 1, time.Minute); fa != fb {
		t.Errorf("fingerprints %s and %s", fa, fb)
	}
	for what, other := range map[string]string{
		"seed": fingerprint(8, actors, 1, time.Minute), "an actor more": fingerprint(7, kubelets(201), 1, time.Minute),
		"scale": fingerprint(7, actors, 2, time.Minute), "length": fingerprint(7, actors, 1, 30*time.Second),
	} {
		if other == fingerprint(7, actors, 1, time.Minute) {
			t.Errorf("another %s, the same fingerprint", what)
		}
	}
	of := func(turns []upcoming, actor int) (out []time.Duration) {
		for _, u := range turns {
			if u.actor == actor {
				out = append(out, u.due)
			}
		}
		return out
	}
	if !slices.Equal(of(a, 13), of(dues(7, kubelets(20), 1, time.Minute), 13)) {
		t.Error("an actor's schedule depends on how many others there are")
	}
}

// Kubelets renew every 10 to 10.4 s, spread evenly, so that 1000 of them are 98
// renewals a second at any time.
func TestScheduleHasTheRatesOfKubelets(t *testing.T) {
	const nodes = 1000
	turns := dues(1, kubelets(nodes), 1, 2*time.Minute)
	perSecond := make([]int, 120)
	last := map[int]time.Duration{}
	for _, u := range turns {
		perSecond[u.due/time.Second]++
		if before, ok := last[u.actor]; ok && (u.due-before < 10*time.Second || u.due-before > 10400*time.Millisecond) {
			t.Fatalf("actor %d: %s from one turn to the next", u.actor, u.due-before)
		}
		last[u.actor] = u.due
	}
	if rate := float64(len(turns)) / 120; math.Abs(rate-nodes/10.2) > 1 {
		t.Errorf("%.1f turns a second, want %.1f", rate, nodes/10.2)
	}
	if lo, hi := slices.Min(perSecond), slices.Max(perSecond); lo < 60 || hi > 140 {
		t.Errorf("from %d to %d turns in a second", lo, hi)
	}
}

func TestScheduleShapes(t *testing.T) {
	for name, c := range map[string]struct {
		s    Schedule
		want []time.Duration
	}{
		"once":     {Schedule{Delay: 3 * time.Second}, []time.Duration{3 * time.Second}},
		"together": {Schedule{Period: 4 * time.Second, Together: true}, []time.Duration{0, 4 * time.Second, 8 * time.Second}},
		"thrice":   {Schedule{Period: time.Second, Delay: time.Second, Together: true, Turns: 3}, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}},
	} {
		var got []time.Duration
		for _, u := range dues(1, []Actor{{Name: name, Schedule: c.s}}, 1, 10*time.Second) {
			got = append(got, u.due)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: due at %v, want %v", name, got, c.want)
		}
	}
	whole, half := dues(3, kubelets(5), 1, time.Minute), dues(3, kubelets(5), 2, 30*time.Second)
	if len(whole) != len(half) {
		t.Fatalf("%d turns in a minute, %d in half of it at twice the speed", len(whole), len(half))
	}
	for i := range whole {
		if d := whole[i].due - 2*half[i].due; d < -100 || d > 100 {
			t.Errorf("turn %d: due at %s, and at %s at twice the speed", i, whole[i].due, half[i].due)
		}
	}
}
