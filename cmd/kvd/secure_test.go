package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// identity is one way to knock at a secured cluster.
type identity struct {
	name  string
	args  []string
	exit  int // 0: everything works
	cause string
}

// Every command works on a cluster with mutual TLS and authentication, as
// whoever is root: by certificate or by password. Whoever is not is told what is
// missing.
func TestEveryCommandOnASecuredCluster(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	c := servertest.Start(t, servertest.Options{Options: local.Options{
		Members: 3, TLS: certs.MutualTLS(), QuotaBytes: 64 << 20, Args: []string{"--unsafe-no-fsync"}}})
	c.EnableAuth(t, servertest.User{Name: "reader", Password: "pw", Prefix: "/registry/"})

	for range 9 {
		if _, err := c.Client(t).Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
	}

	root, guest := certs.ClientFor("root"), certs.ClientFor("guest")
	where := []string{"--endpoints", strings.Join(c.Endpoints(), ","), "--cacert", c.TLS().CA}
	as := func(p servertest.Pair, more ...string) []string {
		return slices.Concat(where, []string{"--cert", p.Cert, "--key", p.Key}, more)
	}
	for _, id := range []identity{
		{"root by certificate", as(root), 0, ""},
		{"root by password", as(guest, "--user", "root:"+servertest.RootPassword), 0, ""},
		{"no certificate", where, 8, "client_cert_required"},
		{"no certificate but a password", append(slices.Clone(where), "--user", "root:"+servertest.RootPassword), 8, "client_cert_required"},
		{"wrong password", as(guest, "--user", "root:wrong"), 8, "auth_failed"},
	} {
		t.Run(id.name, func(t *testing.T) {
			t.Parallel()
			for _, cmd := range [][]string{
				{"status"}, {"quota"}, {"alarm", "list"}, {"alarm", "disarm", "--yes"}, {"compact", "--to", "5", "--yes"},
				{"defrag", "--yes", "--min-gain", "1GiB"}, {"alarm", "recover", "--yes"},
			} {
				id.run(t, cmd)
			}
		})
	}
	// A user without the role may read the status, and is told what it may not.
	limited := identity{"reader", as(guest, "--user", "reader:pw"), 8, "permission_denied"}
	limited.run(t, []string{"compact", "--to", "head", "--yes"})
	limited.run(t, []string{"defrag", "--yes", "--min-gain", "0"})
	// Hashes it may not have are no hashes that are the same.
	if out := limited.run(t, []string{"diff", "member:m1", "member:m2", "--prefix", "/registry/", "--hash"}); out != "" {
		t.Errorf("where nothing could be compared diff said %s", out)
	}
	limited.cause, limited.exit = "", 0
	limited.run(t, []string{"status"})
	limited.run(t, []string{"alarm", "list"})
}

// run runs one command as the identity, compares its end, and returns its result.
func (id identity) run(t *testing.T, cmd []string) string {
	t.Helper()
	var out, said bytes.Buffer
	p := exec.CommandContext(t.Context(), servertest.Binary(t), slices.Concat(cmd, id.args, []string{"-o", "json"})...)
	p.Stdout, p.Stderr = &out, &said
	var exit *exec.ExitError
	err := p.Run()
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := p.ProcessState.ExitCode(); got != id.exit {
		t.Errorf("%s: kvd %s: exit code %d, want %d\n%s", id.name, strings.Join(cmd, " "), got, id.exit, said.String())
		return out.String()
	}
	if id.cause == "" {
		return out.String()
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	var e struct {
		Error struct{ Cause, Message, Hint string }
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &e); err != nil {
		t.Errorf("%s: kvd %s: %v in %q", id.name, strings.Join(cmd, " "), err, said.String())
	}
	if e.Error.Cause != id.cause || e.Error.Hint == "" {
		t.Errorf("%s: kvd %s: cause %q, hint %q, want cause %q and a hint", id.name, strings.Join(cmd, " "), e.Error.Cause, e.Error.Hint, id.cause)
	}
	return out.String()
}
