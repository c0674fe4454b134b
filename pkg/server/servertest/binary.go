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

const (
	// BinaryEnv names a kvd executable for tests to run instead of building one.
	BinaryEnv = "KVD_TEST_BINARY"
	// ReferenceEnv names a folder with stock etcd, etcdctl and etcdutl, for tests
	// to run instead of building them.
	ReferenceEnv = "KVD_REFERENCE_DIR"
)

// build makes the executable once per test process.
var build = sync.OnceValues(buildBinary) // one build per process is the point

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
	return goBuild("kvd", "kvd/cmd/kvd", ".")
}

// Reference returns the path of a stock program of the etcd version that kvd
// embeds: "etcd", "etcdctl" or "etcdutl". It is built from the module in
// scripts/reference, which takes most of a minute the first time, so only tests
// with the tag long use it.
func Reference(tb testing.TB, program string) string {
	tb.Helper()
	if dir := os.Getenv(ReferenceEnv); dir != "" {
		return filepath.Join(dir, program)
	}
	pkg := "go.etcd.io/etcd/" + program + "/v3"
	if program == "etcd" {
		pkg = "go.etcd.io/etcd/server/v3"
	}
	path, err := goBuild(program, pkg, filepath.Join("scripts", "reference"))
	if err != nil {
		tb.Fatalf("building stock %s: %v", program, err)
	}
	return path
}

// Benchmark returns the path of etcd's own load generator, built from the module
// in scripts/benchmark: for tests with the tag long, as Reference.
func Benchmark(tb testing.TB) string {
	tb.Helper()
	path, err := goBuild("benchmark", "go.etcd.io/etcd/v3/tools/benchmark", filepath.Join("scripts", "benchmark"))
	if err != nil {
		tb.Fatalf("building etcd's benchmark: %v", err)
	}
	return path
}

// goBuild builds pkg of the module in dir (relative to kvd's root) into a place
// of this checkout, outside the test's temporary folder: the linker is spared
// where nothing changed, and no copy is left per test process.
func goBuild(name, pkg, dir string) (string, error) {
	root, place, unlock, err := lockedPlace()
	if err != nil {
		return "", err
	}
	defer unlock()
	bin := filepath.Join(place, name)
	// As in the Makefile, so that nothing is compiled twice.
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", bin, pkg)
	cmd.Dir = filepath.Join(root, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return bin, nil
}

// sourceRoot is the folder of kvd's go.mod.
func sourceRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// lockedPlace is the source tree and the folder for what is built from it, which
// is this process's own until it calls unlock.
func lockedPlace() (root, place string, unlock func(), err error) {
	if root, err = sourceRoot(); err != nil {
		return "", "", nil, err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	place = filepath.Join(base, "kvd-test", fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16])
	if err := os.MkdirAll(place, 0o700); err != nil {
		return "", "", nil, err
	}
	lock, err := os.OpenFile(filepath.Join(place, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", "", nil, err
	}
	unlock = func() { _ = lock.Close() }
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		unlock()
		return "", "", nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return root, place, unlock, nil
}
