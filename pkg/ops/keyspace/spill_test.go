package keyspace_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/server/servertest"
)

// TestAFullSpoolDirIsNamed sorts more than there is room for in the folder that was
// given: that one is full, and not the system's.
func TestAFullSpoolDirIsNamed(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "db")
	servertest.MountSmall(t, dir, 1)
	kv, done := store(t, path)
	for i := range 4000 {
		kv.Put(fmt.Appendf(nil, "/%s/%d", strings.Repeat("k", 400), i), []byte("v"), 0)
	}
	kv.Commit()
	done()
	s, err := keyspace.OpenFile(t.Context(), path, keyspace.FileOptions{SpoolDir: dir, Memory: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // only read
	err = s.Keys(t.Context(), keyspace.Query{}, func(*keyspace.Item) error { return nil })
	var e *fault.Error
	if !errors.As(err, &e) || !errors.Is(err, syscall.ENOSPC) || e.Subject != dir {
		t.Errorf("%v; want that %s is full", err, dir)
	}
}
