//go:build long

package wal_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// On a file system that is full the stock server ends on a log that is whole, at its
// start or when more is written than its files have allocated, and that is what is said
// of it; with room, it starts and takes as much, and nothing is said.
func TestVerifyOnAFullDisk(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "unshare", "-rm", "mount", "-t", "tmpfs", "none", t.TempDir()).CombinedOutput(); err != nil {
		t.Skipf("no file system can be mounted here: %v: %s", err, out)
	}
	for name, sparse := range map[string]string{"nothing allocated beforehand": "always", "all allocated beforehand": "never"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
			puts(t, c.Client(t), 200)
			c.Kill(0)
			onAFullDisk(t, c, sparse)
		})
	}
}

func onAFullDisk(t *testing.T, c *servertest.Cluster, sparse string) {
	t.Helper()
	script := `set -eu
mount -t tmpfs -o size=400m none "$DIR"
cp -a --sparse="$SPARSE" "$DATA" "$DIR/data"
head -c 300000 /dev/zero | tr '\0' v >"$DIR/value"
put() { "$ETCDCTL" --endpoints "$URL" --command-timeout 2s put "k$1" <"$DIR/value" >/dev/null 2>&1; }
serve() { # until it ends by itself, or has taken 30 MB
	"$ETCD" --name m1 --data-dir "$DIR/data" --listen-peer-urls http://127.0.0.1:0 --listen-client-urls "$URL" --advertise-client-urls "$URL" >"$LOG" 2>&1 &
	pid=$!
	taken=0 i=0
	while [ $i -lt 400 ] && [ $taken -lt 100 ] && kill -0 $pid 2>/dev/null; do
		i=$((i+1))
		if put $i; then taken=$((taken+1)); else sleep 0.1; fi
	done
	kill $pid 2>/dev/null || true
	wait $pid || true
	[ $taken -lt 100 ] || echo "took all"
	grep -o 'no space left on device' "$LOG" | tail -n 1
	echo "took $taken of $i"; tail -n 3 "$LOG"
}
dd if=/dev/zero of="$DIR/fill" bs=64k 2>/dev/null || true
"$KVD" wal verify "$DIR/data" --fail-on critical || echo "exit code $?"
serve
rm "$DIR/fill"
"$KVD" wal verify "$DIR/data" --fail-on critical && echo "all is well"
serve
`
	cmd := exec.CommandContext(t.Context(), "unshare", "-rm", "sh", "-c", script)
	cmd.Env = append(cmd.Environ(), "DIR="+t.TempDir(), "DATA="+c.DataDir(0), "ETCD="+servertest.Reference(t, "etcd"), "ETCDCTL="+servertest.Reference(t, "etcdctl"), "KVD="+servertest.Binary(t),
		"SPARSE="+sparse, "URL="+c.Endpoint(0), "LOG="+filepath.Join(t.TempDir(), "log"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	at := 0
	for _, want := range []string{"critical: disk_full: ", "exit code 3", "\nno space left on device\n", "all is well", "took all"} {
		i := strings.Index(string(out)[at:], want)
		if i < 0 {
			t.Fatalf("no %q where it should be:\n%s", want, out)
		}
		at += i
	}
}
