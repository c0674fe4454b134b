package loadgen

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kvd/pkg/loadgen/result"
)

// stage plays actors against nothing.
func stage(t *testing.T, limit int, horizon time.Duration, actors []Actor, meanwhile func(d *dispatcher, giveUp func())) result.Totals {
	t.Helper()
	o := DefaultOptions()
	o.MaxInFlight = limit
	return stageOf(t, o, horizon, actors, meanwhile)
}

func stageOf(t *testing.T, o Options, horizon time.Duration, actors []Actor, meanwhile func(d *dispatcher, giveUp func())) result.Totals {
	t.Helper()
	requests, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	o.Warmup, o.Duration = 0, horizon
	env := &Env{Seed: 1, rec: newRecorder(), run: requests, scale: 1}
	begun := time.Now()
	d := newDispatcher(env, actors, o, begun)
	env.rec.begin(begun, 0)
	played := make(chan struct{})
	go func() {
		defer close(played)
		d.play(t.Context(), requests, newTimeline(o, actors), nil)
	}()
	meanwhile(d, giveUp)
	<-played
	d.drain(t.Context(), Cast{}.behind)
	d.close()
	var totals result.Totals
	env.rec.finish(&totals)
	return totals
}

// answer records a request that is done now.
func answer(t *Turn) {
	now := time.Now()
	t.env.rec.record(result.Op{RPC: "txn", Outcome: result.OK}, t.Due, t.from, now, now, 0)
}

// A server that stands still delays all that is due meanwhile, and the schedule
// goes on: every turn is begun, and its response time runs from when it was due.
func TestDispatcherGoesOnWhileTheServerStandsStill(t *testing.T) {
	t.Parallel()
	const period, pause = 10 * time.Millisecond, 600 * time.Millisecond
	released := make(chan struct{})
	act := func(_ context.Context, turn *Turn) {
		<-released
		answer(turn)
	}
	actors := make([]Actor, 20)
	for i := range actors {
		actors[i] = Actor{Name: string(rune('a' + i)), Schedule: Schedule{Period: period}, Act: act}
	}
	totals := stage(t, 100_000, pause+400*time.Millisecond, actors, func(*dispatcher, func()) {
		<-time.After(pause)
		close(released)
	})
	if totals.Dropped != 0 || totals.Sent != totals.Due || totals.Due != 20*100 {
		t.Errorf("due %d, sent %d, left out %d; want 2000, 2000, 0", totals.Due, totals.Sent, totals.Dropped)
	}
	h := totals.Ops[0].Response
	for _, x := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond} {
		want := int64(20 * (pause - x) / period)
		if got := h.AtLeast(x); got < want*9/10 { // a slow machine only makes them more
			t.Errorf("%d responses took %s or longer, want %d", got, x, want)
		}
	}
}

// What is due beyond the limit is left out and counted, at once.
func TestDispatcherLeavesOutWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	var acted atomic.Int64
	release := make(chan struct{})
	actors := make([]Actor, 50)
	for i := range actors {
		actors[i] = Actor{Name: string(rune('A' + i)), Schedule: Schedule{Period: 10 * time.Millisecond},
			Act: func(context.Context, *Turn) { acted.Add(1); <-release }}
	}
	totals := stage(t, 30, 200*time.Millisecond, actors, func(d *dispatcher, _ func()) {
		<-time.After(300 * time.Millisecond)
		if n := d.inFlight.Load(); n != 30 {
			t.Errorf("%d turns under way or waiting, want the limit of 30", n)
		}
		close(release)
	})
	if totals.Due != 50*20 || totals.Dropped != totals.Due-30 || acted.Load() != 30 {
		t.Errorf("due %d, left out %d, acted %d; want 1000, 970, 30", totals.Due, totals.Dropped, acted.Load())
	}
	if got := DefaultOptions().Limits.exceeded(&totals); len(got) == 0 {
		t.Error("nothing is said of the turns that were left out")
	}
}

// An actor takes one turn at a time, in order, and each has its number.
func TestActorsTakeOneTurnAtATime(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []int64
	busy := false
	totals := stage(t, 1000, 200*time.Millisecond, []Actor{{Name: "a", Schedule: Schedule{Period: time.Millisecond}, Act: func(_ context.Context, turn *Turn) {
		mu.Lock()
		if busy {
			t.Error("two turns of one actor at a time")
		}
		busy, order = true, append(order, turn.N)
		mu.Unlock()
		<-time.After(3 * time.Millisecond)
		mu.Lock()
		busy = false
		mu.Unlock()
		answer(turn)
	}}}, func(*dispatcher, func()) {})
	for i, n := range order {
		if n != int64(i+1) {
			t.Fatalf("turn %d came as number %d", n, i+1)
		}
	}
	if len(order) != 200 || totals.Ops[0].Response.Max() < 300*time.Millisecond {
		t.Errorf("%d turns, the longest response %s; want 200, and over 300 ms for those that waited for the ones before", len(order), totals.Ops[0].Response.Max())
	}
}

// The generator's lag is a limit where it is long and a good part of the response
// time: beside a server that takes a second, 20 ms say nothing.
func TestLagIsALimitWhereItMatters(t *testing.T) {
	for _, c := range []struct {
		lag, response time.Duration
		limited       bool
	}{
		{20 * time.Millisecond, 30 * time.Millisecond, true}, {20 * time.Millisecond, time.Second, false},
		{9 * time.Millisecond, 10 * time.Millisecond, false}, {300 * time.Millisecond, time.Second, true},
	} {
		totals := result.Totals{Due: 1, Sent: 1}
		totals.Lag.Record(c.lag)
		var h result.Histogram
		h.Record(c.response)
		totals.Ops = []result.Latencies{{Op: result.Op{RPC: "txn", Outcome: result.OK}, Response: h}}
		if got := DefaultOptions().Limits.exceeded(&totals); (len(got) > 0) != c.limited {
			t.Errorf("lag %s of %s: %q", c.lag, c.response, got)
		}
	}
	if got := DefaultOptions().Limits.exceeded(&result.Totals{Due: 1, Sent: 1, CPU: 0.81}); len(got) != 1 {
		t.Errorf("81 %% of the processors: %q", got)
	}
}
