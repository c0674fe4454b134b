//go:build long

package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// etcdctl is the stock client, tied to a cluster.
type etcdctl struct {
	path      string
	endpoints []string
	args      []string // how to get in
}

// at is the same with one endpoint only.
func (e etcdctl) at(endpoint string) etcdctl {
	e.endpoints = []string{endpoint}
	return e
}

func newEtcdctl(t *testing.T, c *servertest.Cluster) etcdctl {
	t.Helper()
	e := etcdctl{path: servertest.Reference(t, "etcdctl"), endpoints: c.Endpoints()}
	if s := c.TLS(); s != nil {
		e.args = append(e.args, "--cacert="+s.CA, "--cert="+s.ClientCert, "--key="+s.ClientKey)
	}
	return e
}

func (e etcdctl) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	all := slices.Concat([]string{"--endpoints=" + strings.Join(e.endpoints, ",")}, e.args, args)
	cmd := exec.CommandContext(servertest.Context(t, 60*time.Second), e.path, all...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	return cmd
}

// run executes one etcdctl command with a text on its stdin and returns stdout.
func (e etcdctl) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := e.command(t, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("etcdctl %v: %v\n%s%s", args, err, out, errOut.String())
	}
	return string(out)
}

// Stock etcdctl works against kvd serve.
func TestEtcdctl(t *testing.T) {
	for _, tc := range []struct {
		name    string
		members int
		tls     bool
		auth    bool
	}{
		{"one member", 1, false, false},
		{"three members", 3, false, false},
		{"three members, mutual TLS, auth", 3, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := servertest.Options{Options: local.Options{Members: tc.members, QuotaBytes: 16 << 20}, EqualContent: true}
			if tc.tls {
				o.TLS = servertest.NewCerts(t).MutualTLS()
			}
			c := servertest.Start(t, o)
			e := newEtcdctl(t, c)
			if tc.auth {
				c.EnableAuth(t)
				e.args = append(e.args, "--user=root:"+servertest.RootPassword)
			}
			t.Run("key space", func(t *testing.T) { interopKeys(t, e) })
			t.Run("watch", func(t *testing.T) { interopWatch(t, e) })
			t.Run("lease", func(t *testing.T) { interopLease(t, e) })
			t.Run("members", func(t *testing.T) { interopMembers(t, e, c) })
			t.Run("snapshot", func(t *testing.T) { interopSnapshot(t, e, c) })
			t.Run("alarm", func(t *testing.T) { interopAlarm(t, e) })
		})
	}
}

func interopKeys(t *testing.T, e etcdctl) {
	expect(t, e.run(t, "", "put", "a", "1"), "OK\n")
	expect(t, e.run(t, "line one\nline two", "put", "b"), "OK\n")
	expect(t, e.run(t, "", "get", "a"), "a\n1\n")
	expect(t, e.run(t, "", "get", "b", "--print-value-only"), "line one\nline two\n")
	expect(t, e.run(t, "", "get", "", "--prefix", "--keys-only", "--limit=2"), "a\n\nb\n\n")
	// Compare, then one branch or the other.
	txn := func(value string) string {
		return fmt.Sprintf("value(\"a\") = \"%s\"\n\nput c yes\n\nput c no\n\n", value)
	}
	expect(t, e.run(t, txn("1"), "txn"), "SUCCESS\n\nOK\n")
	expect(t, e.run(t, "", "get", "c", "--print-value-only"), "yes\n")
	expect(t, e.run(t, txn("2"), "txn"), "FAILURE\n\nOK\n")
	expect(t, e.run(t, "", "get", "c", "--print-value-only"), "no\n")
	expect(t, e.run(t, "", "del", "c"), "1\n")
	expect(t, e.run(t, "", "get", "c"), "")
}

func interopWatch(t *testing.T, e etcdctl) {
	ctx, stop := context.WithCancel(t.Context())
	cmd := e.command(t, "watch", "w/", "--prefix", "--progress-notify")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stop(); _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := make(chan string)
	go readLines(ctx, out, lines)

	// A watch begins some time after its process: write until the first event.
	n := 0
	for first := ""; first == ""; n++ {
		expect(t, e.run(t, "", "put", "w/x", fmt.Sprint(n)), "OK\n")
		select {
		case first = <-lines:
			expect(t, first, "PUT")
		case <-time.After(300 * time.Millisecond):
		}
	}
	e.run(t, "", "del", "w/x")
	deadline := time.After(20 * time.Second)
	for {
		select {
		case line := <-lines:
			if line == "DELETE" {
				return
			}
		case <-deadline:
			t.Fatal("no DELETE event within 20 s")
		}
	}
}

func readLines(ctx context.Context, r io.Reader, to chan<- string) {
	for s := bufio.NewScanner(r); s.Scan(); {
		select {
		case to <- s.Text():
		case <-ctx.Done():
			return
		}
	}
}

func interopLease(t *testing.T, e etcdctl) {
	m := regexp.MustCompile(`^lease ([0-9a-f]+) granted with TTL\(600s\)\n$`).FindStringSubmatch(e.run(t, "", "lease", "grant", "600"))
	if m == nil {
		t.Fatal("no lease")
	}
	id := m[1]
	expect(t, e.run(t, "", "put", "leased", "v", "--lease="+id), "OK\n")
	if got := e.run(t, "", "lease", "timetolive", id, "--keys"); !strings.Contains(got, "granted with TTL(600s)") || !strings.Contains(got, "attached keys([leased])") {
		t.Errorf("timetolive: %s", got)
	}
	if got := e.run(t, "", "lease", "list"); !strings.Contains(got, id) {
		t.Errorf("list: %s", got)
	}
	expect(t, e.run(t, "", "lease", "keep-alive", "--once", id), fmt.Sprintf("lease %s keepalived with TTL(600)\n", id))
	expect(t, e.run(t, "", "lease", "revoke", id), fmt.Sprintf("lease %s revoked\n", id))
	expect(t, e.run(t, "", "get", "leased"), "")
}

func interopMembers(t *testing.T, e etcdctl, c *servertest.Cluster) {
	var list struct {
		Members []struct {
			Name       string   `json:"name"`
			ClientURLs []string `json:"clientURLs"`
		} `json:"members"`
	}
	if err := json.Unmarshal([]byte(e.run(t, "", "member", "list", "-w", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Members) != c.Len() {
		t.Errorf("%d members, want %d", len(list.Members), c.Len())
	}
	for _, m := range list.Members {
		if m.Name == "" || len(m.ClientURLs) != 1 {
			t.Errorf("member %+v", m)
		}
	}
	if got := e.run(t, "", "endpoint", "status"); strings.Count(got, "3.7.3") < c.Len() {
		t.Errorf("endpoint status: %s", got)
	}
	e.run(t, "", "endpoint", "health")
	if c.Len() < 2 {
		return
	}
	leader := c.Leader(t)
	target := status(t, c.Client(t), c.Endpoint((leader+1)%c.Len())).Header.MemberId
	if got := e.at(c.Endpoint(leader)).run(t, "", "move-leader", fmt.Sprintf("%x", target)); !strings.Contains(got, "Leadership transferred") {
		t.Errorf("move-leader: %s", got)
	}
	e.run(t, "", "endpoint", "hashkv")
	e.run(t, "", "defrag")
}

// A snapshot taken by etcdctl is restored by etcdutl, and kvd serves it.
func interopSnapshot(t *testing.T, e etcdctl, c *servertest.Cluster) {
	e.run(t, "", "put", "in-snapshot", "yes")
	file := filepath.Join(t.TempDir(), "snap.db")
	if got := e.at(c.Endpoint(0)).run(t, "", "snapshot", "save", file); !strings.Contains(got, "Snapshot saved at "+file) {
		t.Errorf("snapshot save: %s", got)
	}
	restored := servertest.New(t, servertest.Options{})
	out, err := exec.Command(servertest.Reference(t, "etcdutl"), "snapshot", "restore", file, "--name=m1",
		"--data-dir="+restored.DataDir(0), "--initial-cluster=m1="+restored.PeerURL(0),
		"--initial-advertise-peer-urls="+restored.PeerURL(0)).CombinedOutput()
	if err != nil {
		t.Fatalf("etcdutl snapshot restore: %v\n%s", err, out)
	}
	if err := restored.StartMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	r := newEtcdctl(t, restored)
	for _, a := range e.args {
		if strings.HasPrefix(a, "--user=") {
			r.args = append(r.args, a) // the snapshot holds the users too
		}
	}
	expect(t, r.run(t, "", "get", "in-snapshot", "--print-value-only"), "yes\n")
}

func interopAlarm(t *testing.T, e etcdctl) {
	expect(t, e.run(t, "", "alarm", "list"), "")
	var rev struct {
		Header struct{ Revision int64 }
	}
	full := false
	for range 40 { // 16 MiB quota
		cmd := e.command(t, "put", "big")
		cmd.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
		if out, err := cmd.CombinedOutput(); err != nil {
			if !strings.Contains(string(out), "database space exceeded") {
				t.Fatalf("put: %v\n%s", err, out)
			}
			full = true
			break
		}
	}
	if !full {
		t.Fatal("40 MiB went into a quota of 16 MiB")
	}
	if got := e.run(t, "", "alarm", "list"); !strings.Contains(got, "alarm:NOSPACE") {
		t.Errorf("alarm list: %q", got)
	}
	if err := json.Unmarshal([]byte(e.run(t, "", "get", "x", "-w", "json")), &rev); err != nil {
		t.Fatal(err)
	}
	e.run(t, "", "compaction", fmt.Sprint(rev.Header.Revision), "--physical")
	e.run(t, "", "defrag", "--cluster")
	if got := e.run(t, "", "alarm", "disarm"); !strings.Contains(got, "alarm:NOSPACE") {
		t.Errorf("alarm disarm: %q", got)
	}
	expect(t, e.run(t, "", "put", "big", "small"), "OK\n")
	expect(t, e.run(t, "", "alarm", "list"), "")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
