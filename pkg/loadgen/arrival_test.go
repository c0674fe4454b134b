package loadgen

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// A kubelet waits for its answer and then for its period: turns that take 200 ms of
// a server come 280 ms apart where the period is 80, none waits for another, and
// nothing is left behind.
func TestKubeletsWaitForTheirAnswers(t *testing.T) {
	t.Parallel()
	const period, service = 80 * time.Millisecond, 200 * time.Millisecond
	o := DefaultOptions()
	o.Arrival = Kubelet
	var begun []time.Time
	act := func(_ context.Context, turn *Turn) {
		if late := time.Since(turn.Due); late > service { // it would be that and more behind an answer
			t.Errorf("turn %d begun %s after it was due", turn.N, late)
		}
		begun = append(begun, turn.Due)
		<-time.After(service)
		answer(turn)
	}
	actors := []Actor{{Name: "kubelet", Schedule: Schedule{Period: period, Sliding: true}, Act: act}}
	totals := stageOf(t, o, 2800*time.Millisecond, actors, func(*dispatcher, func()) {})
	if totals.Due != int64(len(begun)) || totals.Sent != totals.Due || totals.Due < 3 || totals.Due > 11 {
		t.Errorf("due %d, begun %d; want as many, 10 or so", totals.Due, totals.Sent)
	}
	for i := range begun[1:] {
		if apart := begun[i+1].Sub(begun[i]); apart < period+service {
			t.Errorf("turn %d was due %s after the one before, want %s or more", i+2, apart, period+service)
		}
	}
	o.Arrival = Open
	if open := dues(1, actors, 1, 2800*time.Millisecond); len(open) < 34 {
		t.Errorf("%d turns in open loop, want 35", len(open))
	}
}

// The parts of a load have together each turn of the whole, once.
func TestPartsAreTheWhole(t *testing.T) {
	actors := kubelets(100)
	for i := range actors {
		actors[i].APIServer = i
	}
	name := func(list []Actor) (out []string) {
		for _, u := range dues(7, list, 1, time.Minute) {
			out = append(out, fmt.Sprint(list[u.actor].Name, u.due, u.n))
		}
		slices.Sort(out)
		return out
	}
	whole := name(actors)
	for _, of := range []int{2, 3, 4} {
		var parts []Actor
		besides := 0
		for i := range of {
			var s Shard
			if err := s.Set(fmt.Sprintf("%d/%d", i+1, of)); err != nil {
				t.Fatal(err)
			}
			c := s.part(Cast{Actors: actors, Background: []Beside{{APIServer: 0}, {APIServer: 1}, {APIServer: 2}, {APIServer: 5}}}, 4)
			if len(c.Actors) == 0 || len(c.Actors) == len(actors) {
				t.Errorf("part %s has %d actors of %d", s.String(), len(c.Actors), len(actors))
			}
			parts, besides = append(parts, c.Actors...), besides+len(c.Background)
		}
		if !slices.Equal(name(parts), whole) || besides != 4 {
			t.Errorf("%d parts do not make the whole", of)
		}
	}
	for _, bad := range []string{"", "0/2", "3/2", "1", "1/2/3", "a/b", "1/0", "-1/2"} {
		if err := new(Shard).Set(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// A ramp has the load grow from nothing to all in its time, and no actor's turns
// come closer together.
func TestRamp(t *testing.T) {
	o := DefaultOptions()
	o.Warmup, o.Ramp, o.Duration = 40*time.Second, 40*time.Second, 40*time.Second
	tl := newTimeline(o, kubelets(1000))
	perPart := make([]int, 8)
	for u, ok := tl.peek(); ok && u.due < 80*time.Second; u, ok = tl.peek() {
		perPart[u.due/(10*time.Second)]++
		tl.advance()
	}
	if !slices.IsSorted(perPart[:5]) || perPart[0] > 250 || perPart[5] < 950 || perPart[7] < 950 {
		t.Errorf("turns in each ten seconds: %v; want 125, 375, …, 980 from the fifth on", perPart)
	}
}

func TestOptionsThatDoNotFit(t *testing.T) {
	for what, change := range map[string]func(*Options){
		"ramp":  func(o *Options) { o.Ramp = o.Warmup + 1 },
		"shard": func(o *Options) { o.Shard = Shard{Index: 1, Of: 4} },
	} {
		o := DefaultOptions()
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		if change(&o); o.Check() == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// A turn that is left out is not answered, and who goes on from answers goes on all the
// same: one moment at the limit must not end actors for the rest of the run.
func TestKubeletsGoOnBehindATurnThatWasLeftOut(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	o.Arrival, o.MaxInFlight = Kubelet, 1
	release := make(chan struct{})
	var turns [2]atomic.Int64
	actors := make([]Actor, len(turns))
	for i := range actors {
		actors[i] = Actor{Name: string(rune('a' + i)), Schedule: Schedule{Period: 20 * time.Millisecond, Jitter: 0.5, Sliding: true, Together: true},
			Act: func(_ context.Context, turn *Turn) {
				<-release
				turns[i].Add(1)
				answer(turn)
			}}
	}
	totals := stageOf(t, o, 500*time.Millisecond, actors, func(*dispatcher, func()) {
		<-time.After(50 * time.Millisecond)
		close(release)
	})
	if totals.Dropped == 0 || turns[0].Load() < 2 || turns[1].Load() < 2 {
		t.Errorf("left out %d; turns taken: %d and %d", totals.Dropped, turns[0].Load(), turns[1].Load())
	}
}
