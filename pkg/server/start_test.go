package server_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap/zaptest"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// serve runs `kvd serve` to its end and returns its exit code, its own error
// lines, and everything it wrote.
func serve(t *testing.T, args ...string) (code int, says, all string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, servertest.Binary(t), append([]string{"serve"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Dir = t.TempDir()
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("still running after 60 s:\n%s", out.String())
	}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	var own []string
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "{") {
			own = append(own, line)
		}
	}
	return cmd.ProcessState.ExitCode(), strings.Join(own, ""), out.String()
}

// badStart is a start whose fault shows only when the server starts.
type badStart struct {
	name string
	args func(t *testing.T, c *servertest.Cluster) []string
	code int
	want string // in kvd's own lines
}

func badStarts() []badStart {
	const free = "http://127.0.0.1:0"
	own := func(t *testing.T, more ...string) []string {
		t.Helper()
		return append([]string{"--data-dir", filepath.Join(t.TempDir(), "data")}, more...)
	}
	return []badStart{
		{"client port taken", func(t *testing.T, c *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", free, "--listen-client-urls", c.Endpoint(0), "--advertise-client-urls", c.Endpoint(0))
		}, 4, "another process listens there"},
		{"peer port taken", func(t *testing.T, c *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", c.PeerURL(0), "--listen-client-urls", free, "--advertise-client-urls", free)
		}, 4, "another process listens there"},
		{"metrics port taken", func(t *testing.T, c *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--listen-metrics-urls", c.MetricsURL(0))
		}, 4, "another process listens there"},
		{"address of another machine", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", "http://192.0.2.1:2380")
		}, 2, "no such address"},
		{"name not in the initial cluster", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--name", "a", "--initial-cluster", "b=http://127.0.0.1:1")
		}, 2, "--initial-cluster"},
		{"own URL not in the initial cluster", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--name", "a", "--initial-cluster", "a=http://127.0.0.1:1", "--initial-advertise-peer-urls", "http://127.0.0.1:2")
		}, 2, "--initial-advertise-peer-urls"},
		{"joining what is not there", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--name", "a", "--initial-cluster", "a=http://127.0.0.1:2,b=http://127.0.0.1:1",
				"--initial-advertise-peer-urls", "http://127.0.0.1:2", "--initial-cluster-state", "existing")
		}, 4, "one of its members to answer"},
		{"joining under the name of another", func(t *testing.T, c *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--name", "m1", "--initial-cluster", "m1=http://127.0.0.1:2,m1="+c.PeerURL(0),
				"--initial-advertise-peer-urls", "http://127.0.0.1:2", "--initial-cluster-state", "existing")
		}, 4, "several under one name are read as one"},
		{"joining without having been added", func(t *testing.T, c *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--name", "a", "--initial-cluster", "a=http://127.0.0.1:2,m1="+c.PeerURL(0),
				"--initial-advertise-peer-urls", "http://127.0.0.1:2", "--initial-cluster-state", "existing")
		}, 2, "added first"},
		{"initial cluster without a URL", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--initial-cluster", "a")
		}, 2, "NAME=URL"},
		{"auth token", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--auth-token", "jwt,nothing")
		}, 2, "--auth-token is"},
		{"data directory is a file", func(t *testing.T, _ *servertest.Cluster) []string {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free, "--data-dir", file}
		}, 4, "--data-dir"},
		{"auto TLS where nothing can be written", func(t *testing.T, _ *servertest.Cluster) []string {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"--listen-peer-urls", free, "--listen-client-urls", "https://127.0.0.1:0",
				"--advertise-client-urls", "https://127.0.0.1:0", "--auto-tls", "--data-dir", filepath.Join(file, "data")}
		}, 4, "--data-dir"},
		{"data directory of a running member", func(t *testing.T, c *servertest.Cluster) []string {
			return []string{"--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--name", "m1", "--data-dir", c.DataDir(0)}
		}, 4, "another process has had the data directory open"},
		{"data directory of a v2 proxy", func(t *testing.T, _ *servertest.Cluster) []string {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "proxy"), 0o700); err != nil {
				t.Fatal(err)
			}
			return []string{"--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free, "--data-dir", dir}
		}, 5, "v2 proxy"},
		{"database without its write-ahead log", func(t *testing.T, c *servertest.Cluster) []string {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(c.DataDir(0))); err != nil {
				t.Fatal(err)
			}
			return []string{"--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--name", "m1", "--data-dir", dir, "--wal-dir", filepath.Join(t.TempDir(), "elsewhere")}
		}, 2, "--wal-dir"},
		{"write-ahead log deleted", func(t *testing.T, c *servertest.Cluster) []string {
			return append(copyWithout(t, c, "*.wal"), "--initial-cluster-state", "existing")
		}, 7, "no write-ahead log there, but "},
		{"write-ahead log elsewhere", func(t *testing.T, c *servertest.Cluster) []string {
			return append(copyWithout(t, c, "*.wal"), "--wal-dir", t.TempDir(), "--force-new-cluster")
		}, 7, "give --wal-dir"},
		{"key of another certificate", func(t *testing.T, _ *servertest.Cluster) []string {
			certs := servertest.NewCerts(t)
			return own(t, "--listen-peer-urls", free, "--listen-client-urls", "https://127.0.0.1:0", "--advertise-client-urls", "https://127.0.0.1:0",
				"--cert-file", certs.Server.Cert, "--key-file", certs.Client.Key)
		}, 2, "belong together"},
		{"certificate that is not there", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--listen-peer-urls", "https://127.0.0.1:0", "--listen-client-urls", free, "--advertise-client-urls", free,
				"--peer-cert-file", "/nowhere/peer.crt", "--peer-key-file", "/nowhere/peer.key")
		}, 2, "check the path"},
		{"bad URL", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--listen-client-urls", "127.0.0.1:2379")
		}, 2, "scheme://IP:port"},
		{"no advertised URL", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--listen-client-urls", free)
		}, 2, "set --advertise-client-urls"},
		{"bad duration", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--grpc-keepalive-interval", "5")
		}, 2, "a duration has a unit"},
		{"a size with a unit", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--quota-backend-bytes", "8GiB")
		}, 2, "sizes are in bytes"},
		{"unknown flag", func(t *testing.T, _ *servertest.Cluster) []string { return own(t, "--quota", "1") }, 2, "did you mean --quota-backend-bytes? kvd serve takes"},
		{"misspelled flag", func(t *testing.T, _ *servertest.Cluster) []string { return own(t, "--inital-cluster=a=http://b:1") }, 2, "did you mean --initial-cluster?"},
		{"flag like no other", func(t *testing.T, _ *servertest.Cluster) []string { return own(t, "--endpoints", "a") }, 2, "hint: kvd serve takes etcd's own flags"},
		{"boolean with a space", func(t *testing.T, _ *servertest.Cluster) []string { return own(t, "-pre-vote", "false") }, 2, "hint: --pre-vote=false"},
		{"token key that is not there", func(t *testing.T, _ *servertest.Cluster) []string {
			return own(t, "--auth-token", "jwt,sign-method=RS256,pub-key=/nowhere/jwt.pub")
		}, 2, "no such file"},
		{"damaged write-ahead log", func(t *testing.T, c *servertest.Cluster) []string {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(c.DataDir(0))); err != nil {
				t.Fatal(err)
			}
			logs, _ := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
			for _, path := range logs {
				flip(t, path, 64)
			}
			return []string{"--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free,
				"--name", "m1", "--data-dir", dir}
		}, 7, "write-ahead log cannot be read"},
		{"first segment of the write-ahead log lost", func(t *testing.T, c *servertest.Cluster) []string {
			args := copyWithout(t, c, "no such file")
			wal := filepath.Join(args[len(args)-1], "member", "wal")
			if err := os.Rename(filepath.Join(wal, "0000000000000000-0000000000000000.wal"), filepath.Join(wal, "0000000000000001-0000000000000500.wal")); err != nil {
				t.Fatal(err)
			}
			return args
		}, 7, filepath.Join("member", "wal") + ": "},
	}
}

// copyWithout copies a member's data directory without some of its files, and
// returns the arguments to start it.
func copyWithout(t *testing.T, c *servertest.Cluster, pattern string) []string {
	t.Helper()
	const free = "http://127.0.0.1:0"
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(c.DataDir(0))); err != nil {
		t.Fatal(err)
	}
	gone, err := filepath.Glob(filepath.Join(dir, "member", "wal", pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range gone {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free, "--name", "m1", "--data-dir", dir}
}

// A member that was killed in the first moments of its life has a database in
// which nothing was applied, and no log: it starts as if for the first time.
func TestStartAfterADeathAtBirth(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, servertest.Options{Options: local.Options{Members: 1}})
	if err := os.MkdirAll(filepath.Dir(c.DBPath(0)), 0o700); err != nil {
		t.Fatal(err)
	}
	// As etcd makes it before it makes the log (bootstrapBackend in bootstrap.go).
	be := backend.NewDefaultBackend(zaptest.NewLogger(t), c.DBPath(0))
	schema.CreateMetaBucket(be.BatchTx())
	be.ForceCommit()
	if err := be.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.StartMember(servertest.Context(t, 30*time.Second), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client(t).Put(t.Context(), "k", "v"); err != nil {
		t.Error(err)
	}
}

// A folder may have in its name what a pattern has. The log in it is there all the
// same, and a member that is well starts again.
func TestStartInAFolderNamedAsAPattern(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "[1]*")
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Dir: dir}})
	if err := c.Restart(servertest.Context(t, 30*time.Second), 0); err != nil {
		t.Error(err)
	}
}

// flip damages a file at an offset.
func flip(t *testing.T, path string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{0xde, 0xad, 0xbe, 0xef}, offset); err != nil {
		t.Fatal(err)
	}
}

// A start that fails says so in one error with a hint, with the right exit code
// and without a stack trace.
func TestBadStart(t *testing.T) {
	c := servertest.Start(t, servertest.Options{})
	if _, err := c.Client(t).Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range badStarts() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			code, says, all := serve(t, tc.args(t, c)...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if n := strings.Count(says, "kvd: "); n != 1 || !strings.Contains(says, tc.want) || !strings.Contains(says, "hint: ") {
				t.Errorf("want one error that contains %q, and a hint; got:\n%s", tc.want, says)
			}
			if strings.Contains(says, "goroutine ") || strings.Contains(says, "panic: ") {
				t.Errorf("a stack trace:\n%s", says)
			}
			if t.Failed() {
				t.Log(all)
			}
			t.Log(says)
		})
	}
}

// SIGTERM of a server that has not joined its cluster ends it at once, with 0:
// while it starts, and while it waits for a quorum that is not there.
func TestStopWithoutQuorum(t *testing.T) {
	for _, tc := range []struct{ name, after string }{
		{"while it starts", "starting an etcd server"},
		{"while it waits for a quorum", "now serving peer/client/metrics"},
		{"while it looks for a leader", "became pre-candidate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := servertest.New(t, servertest.Options{Options: local.Options{Members: 3}})
			if err := c.Launch(0); err != nil {
				t.Fatal(err)
			}
			waitLogged(t, c.LogPath(0), tc.after)
			begin := time.Now()
			if err := c.StopMember(t.Context(), 0); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("stopping took %s", took)
			}
			if code, ok := c.ExitCode(0); !ok || code != 0 {
				t.Errorf("exit code %d (%v), want 0", code, ok)
			}
		})
	}
}

func waitLogged(t *testing.T, path, text string) {
	t.Helper()
	ctx := servertest.Context(t, 30*time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(text)) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s never said %q", path, text)
		}
	}
}

// A log whose end is torn, and which etcd cannot repair for what is beside it, is no
// damage that asks for another member: the hint is about what is in the way, and once
// that is gone the member starts.
func TestServeWhereATornLogCannotBeRepaired(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{})
	if _, err := c.Client(t).Put(t.Context(), "k", strings.Repeat("v", 2000)); err != nil {
		t.Fatal(err)
	}
	c.Kill(0)
	segments, err := filepath.Glob(filepath.Join(c.DataDir(0), "member", "wal", "*.wal"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	raw, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(raw, "\x00"))
	if err := os.Truncate(segments[0], int64(end-3)); err != nil {
		t.Fatal(err)
	}
	inTheWay := segments[0] + ".broken"
	if err := os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	const free = "http://127.0.0.1:0"
	args := []string{"--name", c.Name(0), "--data-dir", c.DataDir(0), "--listen-peer-urls", free, "--listen-client-urls", free, "--advertise-client-urls", free}
	code, says, all := serve(t, args...)
	if code != 4 || !strings.Contains(says, "is a directory") || !strings.Contains(says, "need not be replaced") || strings.Contains(says, "kvd member replace") {
		t.Errorf("exit code %d\n%s\nof\n%s", code, says, all)
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := c.StartMember(servertest.Context(t, time.Minute), 0); err != nil {
		t.Error(err)
	}
}

// A start that waits for somebody who reads the database says for whom, and goes on when
// that has ended.
func TestServeWaitsForAReader(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{})
	if err := c.StopMember(servertest.Context(t, time.Minute), 0); err != nil {
		t.Fatal(err)
	}
	reader := exec.CommandContext(t.Context(), "flock", "-F", "-s", c.DBPath(0), "sh", "-c", "echo locked; exec sleep 60") //nolint:gosec // a folder of ours
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Launch(0); err != nil {
		t.Fatal(err)
	}
	said := fmt.Sprintf(`"process":"process %d (`, reader.Process.Pid)
	for until := time.Now().Add(20 * time.Second); !strings.Contains(c.LogTail(0, 50), said); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("no %q in\n%s", said, c.LogTail(0, 50))
		}
	}
	_ = reader.Process.Kill()
	_ = reader.Wait()
	if err := c.WaitReady(servertest.Context(t, time.Minute)); err != nil {
		t.Error(err)
	}
}
