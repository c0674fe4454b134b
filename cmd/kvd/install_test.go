package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kvd/pkg/server/servertest"
)

// The unit of docs/install.md starts a server: its own command line, with paths,
// addresses and ports of this test, tells systemd that it is ready, and SIGTERM
// ends it with 0.
func TestInstallUnit(t *testing.T) {
	t.Parallel()
	unit := unitOf(t)
	for _, want := range []string{"Type=notify", "User=etcd", "Restart=on-failure", "TimeoutStartSec=0", "WantedBy=multi-user.target"} {
		if !strings.Contains(unit, "\n"+want+"\n") {
			t.Errorf("the unit lacks %s", want)
		}
	}
	for _, line := range strings.Split(unit, "\n") {
		if line != "" && !strings.HasPrefix(line, "[") && !strings.Contains(line, "=") {
			t.Errorf("not a line of a unit: %q", line)
		}
	}
	args := execStart(t, unit)
	var said string
	for range 3 { // a port may be taken by somebody else meanwhile
		var ready bool
		if ready, said = startsAndStops(t, args); ready {
			return
		}
	}
	t.Errorf("kvd %v was never ready:\n%s", args, said)
}

// unitOf reads the unit from the page, continued lines joined.
func unitOf(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repoRoot, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(raw), "```ini\n")
	unit, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/install.md shows no unit")
	}
	return strings.ReplaceAll(unit, "\\\n", "")
}

// execStart is the unit's command line behind the binary.
func execStart(t *testing.T, unit string) []string {
	t.Helper()
	for _, line := range strings.Split(unit, "\n") {
		if command, ok := strings.CutPrefix(line, "ExecStart=/usr/local/bin/kvd "); ok {
			return strings.Fields(command)
		}
	}
	t.Fatal("the unit starts no kvd")
	return nil
}

func startsAndStops(t *testing.T, unitArgs []string) (ready bool, said string) {
	t.Helper()
	certs := servertest.NewCerts(t).MutualTLS()
	ports := make([]any, 0, 3)
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		_ = l.Close()
	}
	here := strings.NewReplacer(
		"%H", "m1", "10.0.0.1", "127.0.0.2", "/var/lib/etcd", filepath.Join(t.TempDir(), "data"),
		":2379", fmt.Sprintf(":%d", ports[0]), ":2380", fmt.Sprintf(":%d", ports[1]), ":2381", fmt.Sprintf(":%d", ports[2]),
		"/etc/etcd/server.crt", certs.Cert, "/etc/etcd/server.key", certs.Key, "/etc/etcd/ca.crt", certs.CA,
		"/etc/etcd/peer.crt", certs.Cert, "/etc/etcd/peer.key", certs.Key,
	)
	args := make([]string, 0, len(unitArgs))
	for _, a := range unitArgs {
		args = append(args, here.Replace(a))
	}
	socket := filepath.Join(t.TempDir(), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // of a test
	cmd := exec.CommandContext(t.Context(), servertest.Binary(t), args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "NOTIFY_SOCKET=" + socket}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); _ = conn.Close() }()
	buf := make([]byte, 256)
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, err := conn.Read(buf)
	if err != nil || !strings.Contains(string(buf[:n]), "READY=1") {
		_ = cmd.Process.Kill()
		<-ended
		return false, out.String()
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("SIGTERM ended kvd serve with %v", err)
	}
	return true, ""
}
