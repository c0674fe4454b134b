package ops

import (
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
)

// What is recommended where live data is too large must be a command that kvd takes.
func TestDeleteHint(t *testing.T) {
	for name, tc := range map[string]struct {
		groups []keyspace.Group
		want   string
	}{
		"nothing known":          {nil, "kvd keys delete --prefix PREFIX --dry-run"},
		"a resource":             {[]keyspace.Group{{Prefix: "/registry/events/", Resource: "events"}}, "kvd keys delete --resource events --dry-run"},
		"a prefix":               {[]keyspace.Group{{Prefix: "/app/"}}, `kvd keys delete --prefix "/app/" --dry-run`},
		"what a shell would run": {[]keyspace.Group{{Prefix: "/a b/$(touch x)`id`\"/"}}, "kvd keys delete --prefix '/a b/$(touch x)`id`\"/' --dry-run"},
		"a quote":                {[]keyspace.Group{{Prefix: "/it's/"}}, `kvd keys delete --prefix '/it'"'"'s/' --dry-run`},
		"no common prefix":       {[]keyspace.Group{{Prefix: ""}}, "kvd keys delete --prefix PREFIX --dry-run"},
	} {
		if got := deleteHint(tc.groups); !strings.Contains(got, "`"+tc.want+"`") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := groupsText([]keyspace.Group{{Keys: 3}}); !strings.HasPrefix(got, "keys without a common prefix: 3 keys") {
		t.Error(got)
	}
}

// What most of a file is, is named where it is known, and only there.
func TestWhatFills(t *testing.T) {
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		file FileContent
		want string
	}{
		"history":                        {FileContent{DBSize: 100 * mib, HistoryRatio: 0.9, LiveRatio: 0.1, Live: keyspace.Estimate{Bytes: 10 * mib, Error: mib}}, FindHistory},
		"live":                           {FileContent{DBSize: 100 * mib, HistoryRatio: 0.1, LiveRatio: 0.9, Live: keyspace.Estimate{Bytes: 90 * mib, Error: mib}}, FindLive},
		"one value read, and that small": {FileContent{DBSize: 100 * mib, HistoryRatio: 0.6, LiveRatio: 0.4, Live: keyspace.Estimate{Bytes: 40 * mib, Error: 78 * mib}}, ""},
		"leases": {FileContent{DBSize: 100 * mib, HistoryRatio: 0.2, LiveRatio: 0.1, Live: keyspace.Estimate{Bytes: 10 * mib},
			Leases: &LeaseContent{Count: mib, Bytes: keyspace.Estimate{Bytes: 62 * mib, Error: 18 * mib}}}, FindLeases},
		"held by a reader":     {FileContent{DBSize: 17 * mib, Other: 16 * mib, Live: keyspace.Estimate{Bytes: mib}}, FindHeld},
		"partly filled pages":  {FileContent{DBSize: 15 * mib, Other: 9 * mib, Live: keyspace.Estimate{Bytes: 5 * mib}}, FindPartlyFilled},
		"free, which is exact": {FileContent{DBSize: 100 * mib, FreeRatio: 0.6, LiveRatio: 0.4, Live: keyspace.Estimate{Bytes: 40 * mib, Error: 78 * mib}}, FindFree},
	} {
		got := ""
		for _, f := range whatFills(QuotaReport{File: &tc.file, Content: &keyspace.Usage{}}) {
			got += f.Cause
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// The start flag that helps a learner is named as the member's version has it.
func TestLearnerShrinkKnowsTheVersion(t *testing.T) {
	for version, want := range map[string]string{
		"3.4.23": "etcdctl defrag --data-dir DIR", "3.5.35": "--experimental-bootstrap-defrag-threshold-megabytes=1",
		"3.6.16": " --bootstrap-defrag-threshold-megabytes=1", "3.7.3": " --bootstrap-defrag-threshold-megabytes=1",
	} {
		m := cluster.Member{ID: 4, Name: "l", Learner: true, Status: &cluster.Status{Version: version}}
		if got := learnerShrink(m); !strings.Contains(got, want) || !strings.Contains(got, "`kvd member promote l`") {
			t.Errorf("%s: %s", version, got)
		}
	}
}

// Leases are set apart where they are something, also in a file without any content.
func TestLeasesOfNextToNothing(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		leases, inUse int64
		apart         bool
	}{{0, 0, false}, {0, mib, false}, {1, mib, false}, {1, 100, true}, {1000, mib, true}} {
		if got := leaseContent(tc.leases, tc.inUse); (got != nil) != tc.apart {
			t.Errorf("%d leases in %d bytes: %+v", tc.leases, tc.inUse, got)
		}
	}
}
