package cli

import (
	"testing"

	"github.com/spf13/pflag"

	"kvd/pkg/ops/fault"
)

// What can be asked of a load follows from its flags, and is found before anything is
// sent.
func TestObjectivesOfAScenario(t *testing.T) {
	for _, c := range []struct {
		knobs scenarioFlags
		flags []string
		slo   string
		ok    bool
	}{
		{&heartbeatFlags{}, nil, "txn leases:p99<1s,txn nodes:p99<1s,late_heartbeats==0", true},
		{&heartbeatFlags{}, nil, "range leases:p99<1s", true}, // after a conflict
		{&heartbeatFlags{}, nil, "range pods:p99<1s", false},
		{&heartbeatFlags{}, nil, "compact:p99<1s,txn compactor:p99<1s", true},
		{&heartbeatFlags{}, []string{"--compaction=0"}, "compact:p99<1s", false},
		{&heartbeatFlags{}, []string{"--mode=node-status"}, "range:p99<1s", false},
		{&heartbeatFlags{}, []string{"--mode=node-status"}, "txn leases:p99<1s", false},
		{&listFlags{}, nil, "range pods:p99<1s,list pods:p99<1s,txn leases:p99<1s,relists==0", true},
		{&listFlags{}, nil, "range_stream:p99<1s", false},
		{&listFlags{}, []string{"--stream"}, "range_stream pods:p99<1s", true},
		{&listFlags{}, []string{"--from-cache"}, "objects_listed>0", false},
		{&listFlags{}, []string{"--nodes=0"}, "late_heartbeats==0", false},
		{&listFlags{}, []string{"--nodes=0"}, "txn leases:p99<1s", false},
		{&endpointFlags{}, []string{"--mode=slices"}, "txn endpointslices:p99<1s,watch_bytes>0", true},
		{&endpointFlags{}, []string{"--mode=slices"}, "txn endpoints:p99<1s", false},
		{&eventFlags{}, nil, "txn events:p99<1s,lease_grant events:p99<1s", true},
		{&objectFlags{}, nil, "txn configmaps:p99<1s", true},
		{&objectFlags{}, nil, "txn configmap:p99<1s", false},
		{&watchFlags{}, nil, "watch_event pods:p99<1s", true},
		{&watchFlags{}, nil, "watch_event pods (slow):p99<1s", false},
		{&watchFlags{}, []string{"--slow=1"}, "watch_event pods (slow):p99<1s", true},
		{&podFlags{}, nil, "range pods:p99<1s,txn replicasets:p99<1s", true},
		{&podFlags{}, nil, "watch_events>0", false},
		{&relistFlags{}, nil, "cache_filled others:p99<1s", true},
		{&relistFlags{}, []string{"--kinds=2"}, "cache_filled others:p99<1s", false},
		{&clusterLoadFlags{}, nil, "range health:p99<1s,range_stream consistency checks:p99<1s,lease_grant masterleases:p99<1s", true},
		{&clusterLoadFlags{}, nil, "txn configmaps:p99<1s", false},
	} {
		o := &loadOptions{knobs: c.knobs}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addFlags(fs)
		if err := fs.Parse(append(c.flags, "--slo", c.slo)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := o.prepare(); (err == nil) != c.ok || err != nil && fault.KindOf(err) != fault.Usage {
			t.Errorf("%T %q, %s: %v", c.knobs, c.flags, c.slo, err)
		}
	}
}

// All that --slo was given is judged, and nothing is not taken for an objective.
func TestObjectivesThatAreGiven(t *testing.T) {
	for _, c := range []struct {
		given []string
		want  int // -1: an error of kind Usage
	}{{nil, 0}, {[]string{"errors<1%", "txn:p99<1s"}, 2}, {[]string{"errors<1%,txn:p99<1s", "late_heartbeats==0"}, 3}, {[]string{""}, -1}, {[]string{" , "}, -1}, {[]string{"errors<1%", ""}, 1}} {
		got, err := objectivesOf(c.given)
		if c.want < 0 && fault.KindOf(err) != fault.Usage || c.want >= 0 && (err != nil || len(got) != c.want) {
			t.Errorf("%q: %d objectives, %v", c.given, len(got), err)
		}
	}
}

// A result is never written over another, also not over the same run's.
func TestResultFilesAreTwo(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := openLoadFiles("run", "./run"); fault.KindOf(err) != fault.Usage {
		t.Errorf("both into one file: %v", err)
	}
	if _, err := openLoadFiles("run.jsonl", "run.html"); err != nil {
		t.Errorf("two files: %v", err)
	}
}
