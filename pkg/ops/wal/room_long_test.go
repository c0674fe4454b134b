//go:build long

package wal_test

import (
	"os/exec"
	"strings"
	"testing"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// On a file system that is full the stock server ends on a log that is whole, and that is
// what is said of it; with room, it starts, and nothing is said.
func TestVerifyOnAFullDisk(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "unshare", "-rm", "mount", "-t", "tmpfs", "none", t.TempDir()).CombinedOutput(); err != nil {
		t.Skipf("no file system can be mounted here: %v: %s", err, out)
	}
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 200)
	c.Kill(0)
	script := `set -eu
mount -t tmpfs -o size=200m none "$DIR"
cp -a "$DATA" "$DIR/data"
serve() { timeout 20 "$ETCD" --name m1 --data-dir "$DIR/data" --listen-peer-urls http://127.0.0.1:0 --listen-client-urls http://127.0.0.1:0 --advertise-client-urls http://127.0.0.1:0 2>&1 || true; }
dd if=/dev/zero of="$DIR/fill" bs=64k 2>/dev/null || true
"$KVD" wal verify "$DIR/data" --fail-on critical || echo "exit code $?"
serve | grep -o 'no space left on device' | tail -n 1
rm "$DIR/fill"
"$KVD" wal verify "$DIR/data" --fail-on critical && echo "all is well"
serve | grep -o 'ready to serve client requests'
`
	cmd := exec.CommandContext(t.Context(), "unshare", "-rm", "sh", "-c", script)
	cmd.Env = append(cmd.Environ(), "DIR="+t.TempDir(), "DATA="+c.DataDir(0), "ETCD="+servertest.Reference(t, "etcd"), "KVD="+servertest.Binary(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	at := 0
	for _, want := range []string{"critical: disk_full: ", "exit code 3", "no space left on device", "all is well", "ready to serve client requests"} {
		i := strings.Index(string(out)[at:], want)
		if i < 0 {
			t.Fatalf("no %q where it should be:\n%s", want, out)
		}
		at += i
	}
}
