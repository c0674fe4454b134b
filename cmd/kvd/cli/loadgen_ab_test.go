package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"kvd/pkg/ops/fault"
)

// A variant is the command line's flags with its own over them, exactly.
func TestArmsOfAnABRun(t *testing.T) {
	knobs := func() scenarioFlags { return &objectFlags{} }
	o := &loadOptions{knobs: knobs()}
	fs := pflag.NewFlagSet("k8s-objects", pflag.ContinueOnError)
	o.addFlags(fs)
	err := fs.Parse([]string{"--size", "1600001", "--chunk", "0", "--rate", "2.5", "--seed", "7", "--endpoints-policy", "followers", "--compaction", "30s",
		"--duration", "90s", "--avoid", "m1,m2", "--quota", "32MiB", "--ab", "chunk=16KiB,apiservers=1,members=3", "rate=4, --until-nospace,quota=64MiB"})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.ab.take(fs.Args()); err != nil {
		t.Fatal(err)
	}
	a, err := o.arm(o.ab.variants[0], knobs)
	if err != nil {
		t.Fatal(err)
	}
	b, err := o.arm(o.ab.variants[1], knobs)
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]any{
		"size of A": {a.Scenario().Params()["size_bytes"], int64(1600001)}, "size of B": {b.Scenario().Params()["size_bytes"], int64(1600001)},
		"chunk of A": {a.Scenario().Params()["chunk_bytes"], int64(16384)}, "chunk of B": {b.Scenario().Params()["chunk_bytes"], int64(0)},
		"rate of A": {a.Scenario().Params()["rate"], 2.5}, "rate of B": {b.Scenario().Params()["rate"], 4.0},
		"compaction of A":  {a.Scenario().Params()["compaction_seconds"], 30.0},
		"API servers of A": {a.Options.APIServers, 1}, "API servers of B": {b.Options.APIServers, 3},
		"members of A": {a.Members, 3}, "members of B": {b.Members, 1},
		"quota of A": {a.Quota, int64(32 << 20)}, "quota of B": {b.Quota, int64(64 << 20)},
		"avoided by A": {strings.Join(a.Options.Avoid, " "), "m1 m2"},
		"seed":         {b.Options.Seed, uint64(7)}, "policy": {string(a.Options.Policy), "followers"},
		"duration of A":                    {a.Options.Duration, 90 * time.Second},
		"B stops at no share of the quota": {b.Options.StopAtUsage, 0.0}, "A does": {a.Options.StopAtUsage, 0.8},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	for _, bad := range []string{"chunk", "size=-1", "colour=red", "mode=lease", "", "members=2", "foo=1",
		// of both arms, or of a cluster that is not there: they would be without effect
		"repeats=3", "out=x", "html=x", "slo=errors<1%", "endpoints=http://127.0.0.1:2379", "user=root", "target-is-mine", "shard=1/2"} {
		if _, err := o.arm(bad, knobs); fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestVariantsOfTheCommandLine(t *testing.T) {
	for _, c := range []struct {
		ab, args []string
		ok       bool
	}{
		{nil, nil, true}, {nil, []string{"x"}, false}, {[]string{"a=1"}, []string{"a=2"}, true}, {[]string{"a=1", "a=2"}, nil, true},
		{[]string{"a=1"}, nil, false}, {[]string{"a=1"}, []string{"a=2", "a=3"}, false},
	} {
		f := abFlags{variants: slices.Clone(c.ab), repeats: 5, members: 1, fs: &pflag.FlagSet{}}
		if err := f.take(c.args); (err == nil) != c.ok || err != nil && fault.KindOf(err) != fault.Usage {
			t.Errorf("%q %q: %v", c.ab, c.args, err)
		}
	}
	for _, f := range []abFlags{{variants: []string{"a", "b"}, repeats: 1, members: 1}, {variants: []string{"a", "b"}, repeats: 2, members: 2}} {
		if err := f.take(nil); fault.KindOf(err) != fault.Usage {
			t.Errorf("%+v: %v", f, err)
		}
	}
	f := abFlags{variants: []string{"a"}, repeats: 5, members: 1, fs: &pflag.FlagSet{}}
	if err := f.take([]string{"b", "c"}); err == nil || !strings.Contains(err.Error(), "3 were given") {
		t.Errorf("three variants: %v", err)
	}
	o := &loadOptions{knobs: &heartbeatFlags{}}
	o.addFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	if _, err := o.arm("foo=1", func() scenarioFlags { return &heartbeatFlags{} }); err == nil || !strings.Contains(err.Error(), `no flag "--foo"`) {
		t.Errorf("a flag that there is not: %v", err)
	}
}

// Flags of the throwaway clusters change nothing of a cluster that runs: without
// --ab they are refused, not passed over.
func TestFlagsOfAnABRunAlone(t *testing.T) {
	for _, args := range [][]string{{"--members", "3"}, {"--repeats", "3"}, {"--quota", "1GiB"}} {
		var f abFlags
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.addFlags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		if err := f.take(nil); fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// A flag that names a cluster is none of an A/B run's, which makes its own: passed over,
// it would look as if that cluster had been loaded.
func TestTargetOfAnABRun(t *testing.T) {
	for name, value := range map[string]string{"endpoints": "http://127.0.0.1:2379", "cluster-name": "prod", "user": "root", "cacert": "ca.pem",
		"command-timeout": "3s", "metrics-url": "m1=http://127.0.0.1:2381", "target-is-mine": "true", "beside-kubernetes": "true",
		"slo": "errors==0", "shard": "1/2", "start-at": "2026-11-30T10:00:00Z", "nodes": ""} {
		o := &loadOptions{knobs: &heartbeatFlags{}}
		fs := pflag.NewFlagSet("k8s-heartbeats", pflag.ContinueOnError)
		o.addFlags(fs)
		args := []string{"--ab", "mode=lease", "mode=node-status"}
		if value != "" {
			args = append(args, "--"+name+"="+value)
		} else {
			args = append(args, "--nodes=5", "--out=x.jsonl", "--members=3", "--endpoints-policy=leader")
		}
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		err := o.checkAB()
		if value == "" && err != nil || value != "" && (fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "--"+name)) {
			t.Errorf("--%s: %v", name, err)
		}
	}
}
