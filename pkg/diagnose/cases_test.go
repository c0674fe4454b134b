package diagnose_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/servertest"
)

// Cases are states that people really had, built from real servers and files. Each
// has to give exactly the findings that belong to it.

// connect returns kvd's client of some endpoints, all where none are given.
func connect(t *testing.T, c *servertest.Cluster, endpoints ...string) *cluster.Client {
	t.Helper()
	user, password := c.Account()
	return connectAs(t, c, user, password, endpoints...)
}

// connectAs is connect with another user, or none but the certificate's.
func connectAs(t *testing.T, c *servertest.Cluster, user, password string, endpoints ...string) *cluster.Client {
	t.Helper()
	cfg := cluster.Config{Endpoints: endpoints, User: user, Password: password}
	if len(endpoints) == 0 {
		cfg.Endpoints = c.Endpoints()
	}
	if tls := c.TLS(); tls != nil {
		cfg.CACert, cfg.Cert, cfg.Key = tls.CA, tls.ClientCert, tls.ClientKey
	}
	client, err := cluster.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// options look twice, one second apart. How fast the machine of the tests is, is no
// part of a case: the limits of time are those of a machine that is 100 times slower.
func options() diagnose.CollectOptions {
	o := diagnose.DefaultCollectOptions()
	o.Interval = time.Second
	for _, l := range []*float64{&o.Limits.FsyncP99, &o.Limits.CommitP99, &o.Limits.SlowApplies, &o.Limits.PeerTime, &o.Limits.ReadIndexes} {
		*l *= 100
	}
	o.Limits.CertWarning, o.Limits.CertCritical = 3600, 1800 // those of the tests are good for a day
	return o
}

// look diagnoses a cluster, with whatever changes the options.
func look(t *testing.T, client *cluster.Client, change ...func(*diagnose.CollectOptions)) diagnose.Report {
	t.Helper()
	o := options()
	for _, f := range change {
		f(&o)
	}
	in, err := diagnose.Collect(servertest.Context(t, 2*time.Minute), client, o, discard)
	if err != nil {
		t.Fatal(err)
	}
	return diagnose.Diagnose(in)
}

func withHash(o *diagnose.CollectOptions) { o.Hash = true }

// lookAt diagnoses directories.
func lookAt(t *testing.T, dirs ...string) diagnose.Report {
	t.Helper()
	in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
	for _, d := range dirs {
		if err := in.AddDir(t.Context(), d, diagnose.DirOptions{}, discard); err != nil {
			t.Fatal(err)
		}
	}
	return diagnose.Diagnose(in)
}

// belongs fails the test unless a report has exactly these findings.
func belongs(t *testing.T, r diagnose.Report, want ...string) {
	t.Helper()
	slices.Sort(want)
	if slices.Equal(got(r), want) {
		for _, f := range r.Findings {
			wellFormed(t, f)
		}
		return
	}
	t.Errorf("findings %q, want %q", got(r), want)
	for _, f := range r.Findings {
		t.Logf("%s %s of %s: %s %+v", f.ID, f.Severity, f.Subject, f.Summary, f.Evidence)
	}
}

// finding returns the first of an ID.
func finding(t *testing.T, r diagnose.Report, id string) diagnose.Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f diagnose.Finding) bool { return f.ID == id })
	if i < 0 {
		t.Fatalf("no %s among %q", id, got(r))
	}
	return r.Findings[i]
}

// evidence returns the number behind what a finding says.
func evidence(t *testing.T, f diagnose.Finding, what string) diagnose.Evidence {
	t.Helper()
	i := slices.IndexFunc(f.Evidence, func(e diagnose.Evidence) bool { return e.What == what })
	if i < 0 {
		t.Fatalf("%s has no evidence %q: %+v", f.ID, what, f.Evidence)
	}
	return f.Evidence[i]
}

// mentions fails the test unless a text has all of these in it.
func mentions(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not mention %q", text, w)
		}
	}
}

// put writes n values of a size, to keys in turn, by some writers at once.
func put(t *testing.T, c *clientv3.Client, prefix string, n, keys, size int) {
	t.Helper()
	g, ctx := errgroup.WithContext(servertest.Context(t, 2*time.Minute))
	const writers = 16
	for w := range writers {
		g.Go(func() error {
			for i := w; i < n; i += writers {
				if _, err := c.Put(ctx, fmt.Sprintf("%s%d", prefix, i%keys), strings.Repeat("v", size)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// fill puts until the cluster refuses.
func fill(t *testing.T, c *clientv3.Client, prefix string, keys, size int) {
	t.Helper()
	ctx := servertest.Context(t, 2*time.Minute)
	for i := 0; ; i++ {
		if _, err := c.Put(ctx, fmt.Sprintf("%s%d", prefix, i%keys), strings.Repeat("v", size)); err != nil {
			if !strings.Contains(err.Error(), "database space exceeded") {
				t.Fatal(err)
			}
			return
		}
	}
}

// stop stops members.
func stop(t *testing.T, c *servertest.Cluster, members ...int) {
	t.Helper()
	for _, i := range members {
		if err := c.StopMember(servertest.Context(t, time.Minute), i); err != nil {
			t.Fatal(err)
		}
	}
}

// copyDir copies a directory, times included.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
}
