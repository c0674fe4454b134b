package snapshot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"go.etcd.io/etcd/server/v3/storage/backend"

	"kvd/pkg/ops/fault"
)

// Where etcd's code would end the process it is an error, and the process lives.
func TestGuarded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, []byte(strings.Repeat("nonsense", 5000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(*zap.Logger) error{
		"a panic": func(lg *zap.Logger) error { return backend.NewDefaultBackend(lg, path).Close() },
		"an end":  func(lg *zap.Logger) error { lg.Fatal("invalid database", zap.Error(os.ErrInvalid)); return nil },
	} {
		err := guarded(t.Context(), run)
		if fault.CauseOf(err) != "etcd_gave_up" || !strings.Contains(err.Error(), "invalid database") && !strings.Contains(err.Error(), "failed to open database: invalid") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := guarded(t.Context(), func(*zap.Logger) error { return nil }); err != nil {
		t.Error(err)
	}
}
