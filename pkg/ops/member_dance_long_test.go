//go:build long

package ops_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/servertest"
)

// dance is a cluster under load in which a member is replaced by a real kvd, which
// has the new one started by a command of the test.
type dance struct {
	*place
	state    string // --state-dir
	requests string // where the command writes what it was asked to start
	script   string
	load     *load

	mu      sync.Mutex
	target  int    // whom the next request starts
	started string // the ID of the last one that was started
}

// newDance begins the load and listens for requests to start a member.
func newDance(t *testing.T, p *place) *dance {
	t.Helper()
	dir := t.TempDir()
	d := &dance{place: p, state: filepath.Join(dir, "state"), requests: filepath.Join(dir, "requests"), script: filepath.Join(dir, "start.sh")}
	// The command comes back when the member has been started, as systemctl does.
	text := fmt.Sprintf("#!/bin/sh\necho \"$KVD_MEMBER_ID $ETCD_INITIAL_CLUSTER\" >> %[1]s\nfor i in $(seq 600); do grep -q \"^$KVD_MEMBER_ID$\" %[1]s.done && exit 0; sleep 0.05; done\nexit 1\n", d.requests)
	if err := os.WriteFile(d.script, []byte(text), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if err := os.WriteFile(d.requests+".done", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { d.serve(ctx, t) })
	d.load = d.writes(ctx, t, &wg)
	t.Cleanup(func() { cancel(); wg.Wait() })
	return d
}

// serve starts members as they are asked for: with an empty data dir, and once
// under each ID.
func (d *dance) serve(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		raw, _ := os.ReadFile(d.requests)
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		id, initial, whole := strings.Cut(lines[len(lines)-1], " ")
		if whole && strings.HasSuffix(string(raw), "\n") && id != d.started {
			d.started = id
			if err := d.startTarget(id, initial); err != nil {
				t.Errorf("starting the new member: %v", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// startTarget starts it with the initial cluster that kvd said.
func (d *dance) startTarget(id, initial string) error {
	d.mu.Lock()
	i := d.target
	d.mu.Unlock()
	d.Kill(i)
	if err := os.RemoveAll(d.DataDir(i)); err != nil {
		return err
	}
	if err := d.Launch(i, "--unsafe-no-fsync", "--initial-cluster-state=existing", "--initial-cluster="+initial); err != nil {
		return err
	}
	f, err := os.OpenFile(d.requests+".done", os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, id)
	return errors.Join(err, f.Close())
}

// aim says who is started next.
func (d *dance) aim(i int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = i
}

// load is what was written and acknowledged.
type load struct {
	acked sync.Map // key → value
	n     atomic.Int64
}

// writes puts keys of their own, one after the other in each writer, until ctx
// ends. Only what etcd has acknowledged counts.
func (d *dance) writes(ctx context.Context, t *testing.T, wg *sync.WaitGroup) *load {
	l := &load{}
	client := d.Client
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key, value := fmt.Sprintf("load/%d/%d", w, i), fmt.Sprintf("%d-%d", w, i)
				pctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				_, err := client.Put(pctx, key, value)
				cancel()
				if err == nil {
					l.acked.Store(key, value)
					l.n.Add(1)
				}
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	return l
}

// nothingLost compares what was acknowledged with what the cluster, and the new
// member by itself, have.
func (d *dance) nothingLost(t *testing.T, newcomer int) {
	t.Helper()
	want := map[string]string{}
	d.load.acked.Range(func(k, v any) bool { want[k.(string)] = v.(string); return true })
	ctx := servertest.Context(t, time.Minute)
	one := d.Cluster.Client(t, d.Endpoint(newcomer))
	// A linearizable read first, so that the member has what was acknowledged before.
	all, err := one.Get(ctx, "load/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	own, err := one.Get(ctx, "load/", clientv3.WithPrefix(), clientv3.WithSerializable())
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []*clientv3.GetResponse{all, own} {
		have := map[string]string{}
		for _, kv := range got.Kvs {
			have[string(kv.Key)] = string(kv.Value)
		}
		lost := 0
		for k, v := range want {
			if have[k] != v {
				lost++
			}
		}
		if lost > 0 || len(want) == 0 {
			t.Errorf("%d of %d acknowledged writes are lost", lost, len(want))
		}
	}
	t.Logf("%d acknowledged writes are all there", len(want))
}

// kvd starts a real kvd with the cluster's credentials.
func (d *dance) kvd(t *testing.T, args ...string) (*exec.Cmd, io.Reader, *strings.Builder) {
	t.Helper()
	args = append(args, "--progress", "json", "--endpoints", strings.Join(d.Endpoints(), ","))
	if tls := d.TLS(); tls != nil {
		args = append(args, "--cacert", tls.CA, "--cert", tls.ClientCert, "--key", tls.ClientKey)
	}
	if d.secure || d.auth {
		args = append(args, "--user", "root:"+servertest.RootPassword)
	}
	cmd := exec.CommandContext(t.Context(), servertest.Binary(t), args...)
	out := &strings.Builder{}
	cmd.Stdout = out
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stderr, out
}

// replaceArgs is the call that puts member to in the place of who.
func (d *dance) replaceArgs(who string, from, to int, more ...string) []string {
	args := append([]string{"member", "replace", who, "--yes", "-o", "json", "--start", d.script, "--state-dir", d.state, "--timeout", "2m"}, more...)
	if from != to {
		args = append(args, "--peer-urls", d.PeerURL(to), "--client-urls", d.Endpoint(to), "--new-name", d.Name(to))
	}
	return args
}

// run runs kvd to its end and returns its exit code.
func (d *dance) run(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	cmd, stderr, stdout := d.kvd(t, args...)
	raw, _ := io.ReadAll(stderr)
	_ = cmd.Wait()
	said = string(raw)
	if lines := strings.SplitAfter(said, "\n"); len(lines) > 15 {
		said = strings.Join(lines[len(lines)-15:], "")
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), said
}

// asItShould checks the members: so many voters, all of which answer, no learner,
// and the newcomer under its name.
func (d *dance) asItShould(t *testing.T, voters, newcomer int, gone uint64) {
	t.Helper()
	v := d.view(t)
	if len(v.Voters()) != voters || len(v.Learners()) != 0 {
		t.Fatalf("%d voters and %d learners, want %d and none", len(v.Voters()), len(v.Learners()), voters)
	}
	if _, there := v.MemberByID(gone); there {
		t.Errorf("%s is still a member", cluster.FormatID(gone))
	}
	m, err := v.FindMember(d.Name(newcomer))
	if err != nil || m.Status == nil || m.PeerURLs[0] != d.PeerURL(newcomer) {
		t.Fatalf("the new member: %+v, %v", m, err)
	}
	if _, err := os.Stat(d.state); err == nil {
		if left, _ := filepath.Glob(filepath.Join(d.state, "*")); len(left) > 0 {
			t.Errorf("a record is left: %v", left)
		}
	}
}
