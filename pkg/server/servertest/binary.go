package servertest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// BinaryEnv names a kvd executable for tests to run instead of building one.
const BinaryEnv = "KVD_TEST_BINARY"

// build makes the executable once per test process.
var build = sync.OnceValues(buildBinary) //nolint:gochecknoglobals // one build per process is the point

// Binary returns the path of a kvd executable made of this source tree: the one
// named by KVD_TEST_BINARY, or one that it builds. Test processes that run side
// by side build one after the other, and all but the first find it done.
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := build()
	if err != nil {
		tb.Fatalf("building kvd for tests: %v", err)
	}
	return path
}

func buildBinary() (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		return filepath.Abs(path)
	}
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))

	// One place per checkout, outside the test's temporary folder: the linker is
	// spared where nothing changed, and no copy is left per test process.
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "kvd-test", fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // which also unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	bin := filepath.Join(dir, "kvd")
	cmd := exec.Command("go", "build", "-o", bin, "kvd/cmd/kvd")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build kvd/cmd/kvd: %w\n%s", err, out)
	}
	return bin, nil
}
