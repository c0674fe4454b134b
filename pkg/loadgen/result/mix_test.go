package result

import (
	"testing"
	"time"

	"kvd/pkg/ops/fault"
)

// A mix that is off by more than chance is an error, and one that was not carried out
// is none.
func TestMix(t *testing.T) {
	run := func(leases, pods int) *Run {
		r := &Run{Header: Header{TimeScale: 2, Expected: []Expected{{Name: "txn leases", Rate: 50}, {Name: "all", Rate: 55, Ops: []string{"txn"}}}}}
		r.Totals.Measured, r.Totals.Due = 10, 1
		for resource, n := range map[string]int{"leases": leases, "pods": pods} {
			var h Histogram
			for range n {
				h.Record(time.Millisecond)
			}
			r.Totals.Ops = addOps(r.Totals.Ops, []Latencies{{Op: Op{RPC: "txn", Resource: resource, Outcome: OK}, Response: h}})
		}
		return r
	}
	for _, c := range []struct {
		leases, pods int
		off          bool
	}{
		{1000, 100, false}, {1040, 100, false}, {1140, 10, true}, {860, 240, true}, {1000, 60, false}, {1000, 300, true},
	} {
		r := run(c.leases, c.pods)
		if got := Err(r, nil); (fault.CauseOf(got) == "wrong_mix") != c.off {
			t.Errorf("%d and %d: %v, %+v", c.leases, c.pods, got, Mix(r))
		}
	}
	m := Mix(run(1100, 0))
	if len(m) != 2 || m[0].Model != 100 || m[0].Sent != 110 || m[1].Model != 110 || m[1].Sent != 110 {
		t.Errorf("%+v", m)
	}
	failed := run(500, 0)
	failed.Totals.Ops[0].Outcome = Timeout
	if err := Err(failed, nil); fault.CauseOf(err) == "wrong_mix" {
		t.Errorf("a server that did not answer: %v", err)
	}
	few := run(1000, 100)
	few.Expected = []Expected{{Name: "txn pods", Rate: 0.5}}
	few.Totals.Ops = nil
	if Mix(few)[0].Off {
		t.Error("so few are judged")
	}
}
