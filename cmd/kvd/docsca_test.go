package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// caChange is a cluster whose CA is changed as docs/runbooks/certificates.md has it.
type caChange struct {
	*servertest.Cluster
	t     *testing.T
	certs *servertest.Certs
	files []servertest.Files
	ours  servertest.Files // of whoever connects
}

func newCAChange(t *testing.T) *caChange {
	t.Helper()
	certs := servertest.NewCerts(t)
	c := &caChange{t: t, certs: certs, ours: servertest.NewFiles(t, certs.Client, certs.CA)}
	for range 3 {
		c.files = append(c.files, servertest.NewFiles(t, certs.Server, certs.CA))
	}
	mutual := certs.MutualTLS()
	mutual.CA, mutual.ClientCert, mutual.ClientKey = c.ours.CA, c.ours.Pair.Cert, c.ours.Pair.Key
	c.Cluster = servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, TLS: mutual,
		MemberArgs: func(i int) []string { return c.files[i].Args() }}})
	return c
}

// pass goes over the members, one at a time; what is restarted is waited for.
func (c *caChange) pass(ctx context.Context, restart bool, change func(servertest.Files)) {
	c.t.Helper()
	for i, f := range c.files {
		change(f)
		if restart {
			if err := c.Restart(ctx, i); err != nil {
				c.t.Fatal(err)
			}
		}
		c.kvd(0, "status", "--wait", "--timeout=1m")
	}
}

// kvd runs kvd against all members, and returns what it printed.
func (c *caChange) kvd(exit int, args ...string) []byte {
	c.t.Helper()
	kvd, err := exec.LookPath("kvd")
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.CommandContext(c.t.Context(), kvd, append(args, "--endpoints="+strings.Join(c.Endpoints(), ","), //nolint:gosec // ours
		"--cacert="+c.ours.CA, "--cert="+c.ours.Pair.Cert, "--key="+c.ours.Pair.Key)...)
	out, err := cmd.Output()
	if code, err := exitCodeOf(err); err != nil || code != exit {
		c.t.Fatalf("kvd %q: exit code %d (%v), want %d\n%s", args, code, err, exit, out)
	}
	return out
}

// found is what `kvd diagnose` names.
func (c *caChange) found(exit int) string {
	c.t.Helper()
	var r struct {
		Findings []struct{ ID, Subject string }
	}
	if err := json.Unmarshal(c.kvd(exit, "diagnose", "-o", "json", "--interval=1s"), &r); err != nil {
		c.t.Fatal(err)
	}
	var ids []string
	for _, f := range r.Findings {
		ids = append(ids, f.ID+" "+f.Subject)
	}
	return strings.Join(ids, ", ")
}

// writing writes until it is stopped, with the files of now, and then tells how often
// that took, and how often none of several tries did within 3 s.
func (c *caChange) writing() (stop func() (done, failed int)) {
	client := c.Client(c.t)
	end, ended := make(chan struct{}), make(chan struct{})
	var done, failed int
	once := func() bool {
		until := time.Now().Add(3 * time.Second)
		for time.Now().Before(until) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := client.Put(ctx, "k", "v")
			cancel()
			if err == nil {
				return true
			}
		}
		return false
	}
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if once() {
				done++
			} else {
				failed++
			}
		}
	}()
	return func() (int, int) {
		close(end)
		<-ended
		return done, failed
	}
}

// In three passes the CA of a running cluster is changed, and whoever writes notices
// nothing; what is shown at the end is of the new one alone.
func TestChangeOfTheCA_more(t *testing.T) {
	t.Parallel()
	c := newCAChange(t)
	ctx := servertest.Context(t, 3*time.Minute)
	for _, pass := range []struct {
		name    string
		clients func()
		restart bool
		change  func(servertest.Files)
	}{
		{"trust both", func() { c.ours.Trust(c.certs.CA, c.certs.OtherCA) }, true, func(f servertest.Files) { f.Trust(c.certs.CA, c.certs.OtherCA) }},
		{"show the new", func() {}, false, func(f servertest.Files) { f.Show(c.certs.OtherServer) }},
		{"trust the new only", func() { c.ours.Show(c.certs.OtherClient); c.ours.Trust(c.certs.OtherCA) }, true, func(f servertest.Files) { f.Trust(c.certs.OtherCA) }},
	} {
		pass.clients()
		stop := c.writing()
		c.pass(ctx, pass.restart, pass.change)
		if done, failed := stop(); done == 0 || failed > 0 {
			t.Errorf("%s: %d writes, %d failed", pass.name, done, failed)
		}
		if got := c.found(0); got != "" {
			t.Errorf("%s: diagnose names %s", pass.name, got)
		}
	}
	c.ours.Show(c.certs.Client) // of the old CA
	c.kvd(8, "status")
}

// Whoever begins with what is shown, or restarts a member that trusts the new CA alone,
// has a member less, and diagnose names it.
func TestChangeOfTheCAInTheWrongOrder_more(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*caChange, servertest.Files){
		"shown before it is trusted": func(c *caChange, f servertest.Files) { f.Show(c.certs.OtherServer) },
		"trusted alone":              func(c *caChange, f servertest.Files) { f.Trust(c.certs.OtherCA) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCAChange(t)
			change(c, c.files[2])
			if err := c.StopMember(servertest.Context(t, time.Minute), 2); err != nil {
				t.Fatal(err)
			}
			if err := c.Launch(2); err != nil {
				t.Fatal(err)
			}
			for until := time.Now().Add(20 * time.Second); ; {
				got := c.found(3)
				if strings.Contains(got, "KVD-NET-001 m3") {
					break
				}
				if time.Now().After(until) {
					t.Fatalf("diagnose names %s", got)
				}
			}
		})
	}
}
