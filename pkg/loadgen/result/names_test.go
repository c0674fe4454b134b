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
