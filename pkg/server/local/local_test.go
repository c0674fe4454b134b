package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// roleEnv makes this test binary play another part: see TestMain.
const roleEnv = "KVD_LOCAL_TEST_ROLE"

// noFsync spares the disk: nothing here asserts what survives a power cut, and a
// killed process loses nothing that the kernel has.
func noFsync() []string { return []string{"--unsafe-no-fsync"} }

// TestMain lets the test binary be a parent that starts a cluster and then hangs,
// so that a test can kill it and see what becomes of the members.
func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "parent" {
		parent(os.Args[1], os.Args[2], os.Args[3] == "detach")
		return
	}
	os.Exit(m.Run())
}

func parent(bin, dir string, detach bool) {
	c, err := local.Start(context.Background(), local.Options{
		Members: 2, Dir: dir, Detach: detach, Command: local.Command{Path: bin, Args: []string{"serve"}},
	})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	for i := range c.Len() {
		fmt.Println(c.PID(i))
	}
	fmt.Println("up")
	select {}
}

// Members are gone when their parent was killed, unless they were detached.
func TestParentDies(t *testing.T) {
	for _, detach := range []bool{false, true} {
		t.Run(fmt.Sprintf("detach %v", detach), func(t *testing.T) {
			t.Parallel()
			mode := "tied"
			if detach {
				mode = "detach"
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, servertest.Binary(t), t.TempDir(), mode)
			cmd.Env = append(os.Environ(), roleEnv+"=parent")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var pids []int
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != "up" {
				pid, err := strconv.Atoi(lines.Text())
				if err != nil {
					t.Fatal(lines.Text())
				}
				pids = append(pids, pid)
			}
			if len(pids) != 2 {
				t.Fatalf("%d members, want 2", len(pids))
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed, as wanted
			for _, pid := range pids {
				if detach {
					if !alive(pid) {
						t.Errorf("detached member %d died with its parent", pid)
					}
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				waitUntil(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
			}
		})
	}
}

// alive says whether a process exists and is not just waiting to be reaped.
func alive(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := servertest.Context(t, 15*time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}

// A paused member answers nothing while its port stays open, and goes on where it
// was; a killed one is gone at once; a stopped one exits with 0; each comes back
// with its data.
func TestPauseKillStopRestart(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Args: noFsync()}, EqualContent: true})
	all := c.Client(t)
	if _, err := all.Put(t.Context(), "k", "before"); err != nil {
		t.Fatal(err)
	}
	victim := (c.Leader(t) + 1) % 3
	one := c.Client(t, c.Endpoint(victim))

	if err := c.Pause(victim); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	if _, err := one.Get(short, "k", clientv3.WithSerializable()); !errors.Is(short.Err(), context.DeadlineExceeded) {
		t.Errorf("a paused member answered within 500 ms: %v", err)
	}
	cancel()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.Endpoint(victim), "http://"))
	if err != nil {
		t.Errorf("the port of a paused member: %v", err)
	} else {
		conn.Close()
	}
	if !c.Running(victim) || c.PID(victim) == 0 {
		t.Error("a paused member counts as ended")
	}
	if err := c.Resume(victim); err != nil {
		t.Fatal(err)
	}
	want(t, c, victim, "before")

	c.Kill(victim)
	if code, ok := c.ExitCode(victim); !ok || code != -1 || c.Running(victim) || c.PID(victim) != 0 {
		t.Errorf("after the kill: exit code %d (%v), running %v, pid %d", code, ok, c.Running(victim), c.PID(victim))
	}
	if fault.CauseOf(c.Pause(victim)) != "not_running" {
		t.Error("pausing a dead member is no error")
	}
	if err := c.StartMember(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	want(t, c, victim, "before")

	// SIGTERM reaches a paused member too.
	if err := c.Pause(victim); err != nil {
		t.Fatal(err)
	}
	if err := c.StopMember(t.Context(), victim); err != nil {
		t.Errorf("stopping a paused member: %v", err)
	}
	if code, _ := c.ExitCode(victim); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	// Extra flags stay for later starts, and replace those of before.
	if err := c.Restart(t.Context(), victim, "--quota-backend-bytes=33554432"); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	if q := status(t, c, victim).DbSizeQuota; q != 33554432 {
		t.Errorf("quota %d after two restarts, want 33554432", q)
	}
	want(t, c, victim, "before")
}

func want(t *testing.T, c *servertest.Cluster, i int, value string) {
	t.Helper()
	resp, err := c.Client(t, c.Endpoint(i)).Get(servertest.Context(t, 10*time.Second), "k")
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != value {
		t.Fatalf("%s: got %v, %v", c.Name(i), resp, err)
	}
}

func status(t *testing.T, c *servertest.Cluster, i int) *clientv3.StatusResponse {
	t.Helper()
	st, err := c.Client(t, c.Endpoint(i)).Status(servertest.Context(t, 10*time.Second), c.Endpoint(i))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// A member can be reserved, added as a learner or as a voter, and started later.
func TestJoin(t *testing.T) {
	for _, tc := range []struct {
		members int
		learner bool
		tls     bool
	}{{1, true, false}, {1, false, false}, {3, true, true}} {
		t.Run(fmt.Sprintf("%d members, learner %v, TLS %v", tc.members, tc.learner, tc.tls), func(t *testing.T) {
			t.Parallel()
			o := servertest.Options{Options: local.Options{Members: tc.members, Args: noFsync()}, EqualContent: true}
			if tc.tls {
				o.TLS = servertest.NewCerts(t).MutualTLS()
			}
			c := servertest.Start(t, o)
			cli := c.Client(t)
			if _, err := cli.Put(t.Context(), "k", "v"); err != nil {
				t.Fatal(err)
			}
			i, err := c.Reserve()
			if err != nil {
				t.Fatal(err)
			}
			add := cli.MemberAdd
			if tc.learner {
				add = cli.MemberAddAsLearner
			}
			// etcd takes no new member until all have been connected for 5 s.
			waitUntil(t, "the member is added", func() bool {
				_, err = add(t.Context(), []string{c.PeerURL(i)})
				return err == nil
			})
			if err := c.StartMember(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			st := status(t, c, i)
			if st.IsLearner != tc.learner {
				t.Errorf("learner %v, want %v", st.IsLearner, tc.learner)
			}
			if got := len(c.Endpoints()); got != tc.members+1 {
				t.Errorf("%d endpoints, want %d", got, tc.members+1)
			}
			if tc.learner {
				if _, err := cli.MemberPromote(t.Context(), st.Header.MemberId); err != nil {
					t.Error(err)
				}
			}
			if err := c.Restart(t.Context(), i); err != nil { // finds itself a member
				t.Error(err)
			}
		})
	}
}

// A port that was taken behind our back makes a start choose others.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	// A port that stays taken whatever is chosen: the start gives up after all.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := "http://" + l.Addr().String()
	begin := time.Now()
	_, err = local.Start(t.Context(), local.Options{
		Members: 1, Dir: t.TempDir(), Command: local.Command{Path: servertest.Binary(t), Args: []string{"serve"}},
		Args: []string{"--listen-metrics-urls=" + taken},
	})
	if fault.CauseOf(err) != "address_in_use" || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
	t.Logf("%s: %v", time.Since(begin), err)

	// Taken once only: the second choice is good.
	c, err := local.Start(t.Context(), local.Options{
		Members: 1, Dir: t.TempDir(), Command: local.Command{Path: onceTaken(t, servertest.Binary(t)), Args: nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := os.ReadFile(c.LogPath(0))
	if err != nil {
		t.Fatal(err)
	}
	if starts := strings.Count("\n"+string(raw), "\n--- "); starts != 2 {
		t.Errorf("%d starts, want 2:\n%s", starts, raw)
	}
}

// onceTaken is a program that says the first time that its address is in use, and
// is kvd serve from then on.
func onceTaken(t *testing.T, kvd string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "once")
	script := fmt.Sprintf("#!/bin/sh\nif [ ! -e %[1]s/ran ]; then : > %[1]s/ran; echo 'kvd: bind: address already in use'; exit 4; fi\nexec %[2]s serve \"$@\"\n", dir, kvd)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// A start that cannot succeed says what the member said, and leaves nothing
// behind; one that takes too long is given up.
func TestStartFails(t *testing.T) {
	kvd := local.Command{Path: servertest.Binary(t), Args: []string{"serve"}}
	hang := filepath.Join(t.TempDir(), "hang")
	if err := os.WriteFile(hang, []byte("#!/bin/sh\necho waiting\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	// As the kernel ends a server for which a container's limit is too small.
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.WriteFile(killed, []byte("#!/bin/sh\necho waiting >&2\nkill -9 $$\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, want, cause string
		o                 local.Options
	}{
		{"killed", "was killed (SIGKILL) before it was ready, and not by kvd", "exited", local.Options{Command: local.Command{Path: killed}}},
		{"bad flag", "flag provided but not defined: -nope", "exited", local.Options{Command: kvd, Args: []string{"--nope"}}},
		{"no such program", "no such file", "", local.Options{Command: local.Command{Path: "/nowhere/etcd"}}},
		{"never ready", "waiting", "not_ready", local.Options{Command: local.Command{Path: hang}, ReadyTimeout: 300 * time.Millisecond}},
		{"no quorum", "quorum", "not_ready", local.Options{Command: kvd, ReadyTimeout: 2 * time.Second, Members: 1,
			Args: []string{"--initial-cluster=m1=http://127.0.0.1:2,x=http://127.0.0.1:1", "--initial-advertise-peer-urls=http://127.0.0.1:2"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			c, err := local.Start(t.Context(), tc.o)
			if err == nil {
				c.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tc.want) || fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != tc.cause {
				t.Errorf("got kind %s, cause %q: %v", fault.KindOf(err), fault.CauseOf(err), err)
			}
			if hint := fault.HintOf(err); strings.Contains(hint, temp) || tc.name == "bad flag" && !strings.Contains(hint, "kvd serve --help") {
				t.Errorf("hint %q: want the member's own, and none to a folder that is gone", hint)
			}
			if left, _ := os.ReadDir(temp); len(left) != 0 {
				t.Errorf("%d files are left, first %s", len(left), left[0].Name())
			}
		})
	}
}

// Ctrl-C in a terminal goes to the whole foreground process group: members must
// not be in ours.
func TestOwnProcessGroup(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{})
	group, err := syscall.Getpgid(c.PID(0))
	if err != nil || group != c.PID(0) {
		t.Errorf("process group %d of process %d: %v", group, c.PID(0), err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if c.LogTail(0, 1) == "" || !strings.Contains(c.LogTail(0, 200), "closed etcd server") {
		t.Errorf("the log ends with %q", c.LogTail(0, 1))
	}
}
