package loadgen

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"kvd/pkg/loadgen/result"
)

// What is remembered of a run does not grow with its length: after the first
// minute of 2000 requests a second, nine more take a thirtieth of what a
// generator has in all, and beyond MaxRows nothing is added.
func TestMemoryOfALongRun(t *testing.T) {
	rec := newRecorder()
	begun := time.Now()
	rec.begin(begun, 0)
	rnd := rand.New(rand.NewPCG(1, 1))
	op := result.Op{RPC: "txn", Resource: "leases", Outcome: result.OK}
	var rows []result.Row
	play := func(seconds int) {
		for range seconds {
			for range 2000 {
				took := time.Duration(2e6 * math.Exp(rnd.NormFloat64())) // as answers are: most near 2 ms, a few far from it
				rec.scheduled(begun)
				rec.began(begun, 50*time.Microsecond)
				rec.record(op, begun, begun, begun, begun.Add(took), 600)
			}
			rows = result.AppendRow(rows, rec.closeRow(begun.Add(time.Duration(len(rows)+1)*time.Second)))
		}
	}
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	play(60)
	minute := heap()
	play(540)
	ten := heap()
	t.Logf("after a minute %.1f MiB, after ten %.1f MiB", minute, ten)
	if grown := ten - minute; grown > 0.9 { // a generator at this rate has some 30 MiB
		t.Errorf("ten minutes take %.1f MiB more than one", grown)
	}
	if n := rec.totals[op].Response.Count(); n != 2000*600 {
		t.Errorf("%d of 1200000 requests are counted", n)
	}
	runtime.KeepAlive(rows)
}

// A turn is measured whole or not at all: the second request of one that was due in
// the warm-up belongs to the warm-up, whenever the first was answered.
func TestTurnsOfTheWarmupAreNotMeasured(t *testing.T) {
	rec := newRecorder()
	begun := time.Now().Add(-time.Minute)
	rec.begin(begun, 10*time.Second)
	op := result.Op{RPC: "txn", Outcome: result.OK}
	at := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	rec.record(op, at(9), at(9), at(9), at(11), 1)
	rec.record(op, at(9), at(11), at(11), at(12), 1)
	rec.record(op, at(10), at(10), at(12), at(13), 1)
	rec.record(op, at(10), at(13), at(13), at(14), 1)
	var totals result.Totals
	rec.finish(&totals)
	if len(totals.Ops) != 1 || totals.Ops[0].Response.Count() != 2 {
		t.Errorf("%+v, want the two requests of the second turn", totals.Ops)
	}
}
