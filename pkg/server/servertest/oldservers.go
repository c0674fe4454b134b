package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// OldServersEnv names a folder with etcd-3.4, etcd-3.5 and so on, for tests to
	// run instead of getting them.
	OldServersEnv = "KVD_OLD_SERVERS_DIR"
	// SkipVersionsEnv lists versions ("3.4,3.5") that may be missing: without it,
	// a server that can't be had fails the test.
	SkipVersionsEnv = "KVD_SKIP_VERSIONS"
)

// OldServer returns the path of a stock etcd server of another minor version
// ("3.4", "3.5", "3.6"), which scripts/oldservers gets the first time, or skips
// the test where SkipVersionsEnv allows that.
func OldServer(tb testing.TB, version string) string {
	tb.Helper()
	path, err := oldServer(version)
	if err == nil {
		return path
	}
	if slices.Contains(strings.Split(os.Getenv(SkipVersionsEnv), ","), version) {
		tb.Skipf("%v (skipped as %s says)", err, SkipVersionsEnv)
	}
	tb.Fatalf("%v\ngive a folder that has it with %s, or leave it out with %s=%s", err, OldServersEnv, SkipVersionsEnv, version)
	return ""
}

func oldServer(version string) (string, error) {
	dir := os.Getenv(OldServersEnv)
	if dir != "" {
		path := filepath.Join(dir, "etcd-"+version)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("etcd %s is not in %s: %w", version, OldServersEnv, err)
		}
		return path, nil
	}
	root, place, unlock, err := lockedPlace()
	if err != nil {
		return "", err
	}
	defer unlock()
	if out, err := exec.Command(filepath.Join(root, "scripts", "oldservers", "get"), place, version).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s", strings.TrimSpace(string(out)))
	}
	return filepath.Join(place, "etcd-"+version), nil
}
