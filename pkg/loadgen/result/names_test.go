package result

import (
	"slices"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
)

// What a load never sends or counts is no objective of it, and the error lists what
// there is; what it sends in some runs only is one, with a word about that.
func TestObjectivesOnWhatThereIs(t *testing.T) {
	names := Names{Requests: []Sent{{"txn", "leases", ""}, {"txn", "nodes", ""}, {"range", "leases", "after a conflict"}, {"watch_event", "pods (slow)", ""}},
		Counters: []string{"late_heartbeats"}}
	for slo, want := range map[string][]string{
		"txn:p99<1s": nil, "txn nodes:p99<1s": nil, "watch_event pods (slow):p99<1s,watch_event:p50<1s": nil, "late_heartbeats==0,errors==0,p99<1s": nil, "txn leases:conflicts==0": nil,
		"range leases:p99<1s":    nil,
		"range pods:p99<1s":      {`no request "range pods"`, "with these flags it has range leases (only after a conflict), txn leases, txn nodes, watch_event pods (slow)"},
		"txn leasse:p99<1s":      {`no request "txn leasse"`, "txn leases"},
		"tnx:p99<1s":             {`no request "tnx"`, "txn leases"},
		"txn node:rate>1":        {`no request "txn node"`},
		"txn:late_hartbeats==0":  {`no figure "late_hartbeats"`, "p999", "late_heartbeats"},
		"timeout==0":             {`no figure "timeout"`, "timeouts"},
		"p99<1s,list pods:max<1": {"--slo"}, // a time without a unit
	} {
		o, err := ParseObjectives(slo)
		if err == nil {
			err = names.Check(o)
		}
		if (err == nil) != (want == nil) || err != nil && fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", slo, err)
			continue
		}
		for _, part := range want {
			if said := err.Error() + " " + fault.HintOf(err); !strings.Contains(said, part) {
				t.Errorf("%s: %q does not say %q", slo, said, part)
			}
		}
	}
	o, err := ParseObjectives("range:p99<1s,range leases:errors==0,txn:p99<1s,p99<1s,errors==0")
	if err != nil {
		t.Fatal(err)
	}
	doubts := names.Doubtful(o)
	if len(doubts) != 2 || !strings.HasPrefix(doubts[0], "range:p99<1s: ") || !strings.Contains(doubts[1], "range leases only after a conflict") {
		t.Errorf("%q", doubts)
	}
}

// What one part of a load sends always is sent always, in whatever order they are joined.
func TestNamesOfTwoParts(t *testing.T) {
	always, seldom := Names{Requests: []Sent{{RPC: "range", Resource: "leases"}}}, Names{Requests: []Sent{{"range", "leases", "after a conflict"}}, Counters: []string{"a"}}
	for _, both := range []Names{always.With(seldom), seldom.With(always), seldom.With(always).With(seldom)} {
		if !slices.Equal(both.Requests, always.Requests) || !slices.Equal(both.Counters, seldom.Counters) {
			t.Errorf("%+v", both)
		}
	}
	if seldom.Requests[0].Only == "" {
		t.Error("joining has changed a part")
	}
}

// A kept result is asked for what it has: by the names that its run had, or where it was
// kept before there were any, by what it has counted.
func TestObjectivesOnAKeptResult(t *testing.T) {
	old := &Run{Totals: Totals{Ops: []Latencies{{Op: Op{RPC: "txn", Resource: "leases", Outcome: OK}}, {Op: Op{RPC: "txn", Resource: "leases", Outcome: Timeout}}},
		Counters: map[string]float64{"late_heartbeats": 0}}}
	kept := &Run{Header: Header{Names: Names{Requests: []Sent{{"txn", "leases", ""}, {"range", "leases", "after a conflict"}}, Counters: []string{"late_heartbeats"}}}, Totals: old.Totals}
	for slo, ok := range map[string][2]bool{ // of kept, of old
		"txn leases:p99<1s,late_heartbeats==0": {true, true},
		"range leases:p99<1s":                  {true, true},  // was not sent
		"txn lease:p99<1s":                     {false, true}, // an old one can't tell that from the one above
		"late_hartbeats==0":                    {false, false},
	} {
		o, err := ParseObjectives(slo)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range []*Run{kept, old} {
			if err := r.CheckObjectives(o); (err == nil) != ok[i] || err != nil && fault.KindOf(err) != fault.Usage {
				t.Errorf("%s, %d: %v", slo, i, err)
			}
		}
		if err := Err(old, Judge(old, o)); fault.KindOf(err) == fault.Inconclusive && strings.HasPrefix(slo, "range") && !strings.Contains(fault.HintOf(err), "txn leases") {
			t.Errorf("%s: %v (%s)", slo, err, fault.HintOf(err))
		}
	}
}
