package diagnose_test

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// A downgrade on a real server: what its storage says decides whether it may be restarted
// with the older etcd, and what was planned is no obstacle to itself.
func TestCaseDowngrade(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{})
	ctx := servertest.Context(t, time.Minute)
	client := c.Client(t)
	if _, err := client.Downgrade(ctx, clientv3.DowngradeEnable, "3.6"); err != nil {
		t.Fatal(err)
	}
	var ready diagnose.Report
	waitFor(t, func() bool {
		s, err := client.Status(ctx, c.Endpoint(0))
		if err != nil {
			return false
		}
		if s.StorageVersion != "3.6.0" { // not yet: etcd 3.6 would not start on it
			early := update(t, c, "3.6", "")
			told := strings.Join(of(early, "KVD-VERSION-004"), "\n")
			if f := found(early, "KVD-VERSION-003"); f != nil && told != "" && (!strings.Contains(told, "does not start on it yet") || !strings.HasPrefix(f.Remedy[0], "kvd status")) {
				t.Errorf("%s; %q", told, f.Remedy)
			}
			return false
		}
		ready = update(t, c, "3.6", "")
		return true
	})
	if told := of(ready, "KVD-VERSION-004"); len(told) > 0 {
		t.Errorf("what was planned is in its own way: %q", told)
	}
	f := found(ready, "KVD-VERSION-003")
	if f == nil || !strings.Contains(f.Summary, "nobody joins") || !strings.HasPrefix(f.Remedy[0], "restart one member at a time with 3.6 on its own data dir") {
		t.Errorf("%+v", f)
	}
	if told := of(update(t, c, "3.8", ""), "KVD-VERSION-004"); len(told) != 1 || !strings.Contains(told[0], "see KVD-VERSION-003") {
		t.Errorf("%q", told)
	}
}

func found(r diagnose.Report, id string) *diagnose.Finding {
	for i := range r.Findings {
		if r.Findings[i].ID == id {
			return &r.Findings[i]
		}
	}
	return nil
}

// update diagnoses a directory before an update, beside the running cluster where there
// is one.
func update(t *testing.T, c *servertest.Cluster, target, dir string, manifests ...string) diagnose.Report {
	t.Helper()
	in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
	if c != nil {
		var err error
		if in, err = diagnose.Collect(servertest.Context(t, time.Minute), connect(t, c), options(), discard); err != nil {
			t.Fatal(err)
		}
	}
	if dir != "" {
		if err := in.AddDir(t.Context(), dir, diagnose.DirOptions{}, discard); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.AddTarget(target, manifests); err != nil {
		t.Fatal(err)
	}
	return diagnose.Diagnose(in)
}

// of lists what a report says of updates.
func of(r diagnose.Report, id string) []string {
	var out []string
	for _, f := range r.Findings {
		if f.ID == id {
			out = append(out, string(f.Severity)+" "+f.Summary)
		}
	}
	return out
}
