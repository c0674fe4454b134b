package snapshot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

func boot(t testing.TB, file string, server local.Command) *snapshot.Verification {
	t.Helper()
	if server.Path == "" {
		server = local.Command{Path: servertest.Binary(t), Args: []string{"serve"}}
	}
	v, err := snapshot.VerifyBoot(t.Context(), file, snapshot.BootOptions{Server: server}, progress.Discard)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v
}

// What a member makes of a file, by its own word: a real snapshot; one with users,
// where no password is asked for; a raw copy with a compaction that the start
// carries out.
func TestBoot(t *testing.T) {
	t.Parallel()
	t.Run("registry", func(t *testing.T) {
		t.Parallel()
		v := boot(t, write(t, "s.db", realRegistry(t)), local.Command{})
		if b := v.Boot; v.Verdict != snapshot.Restorable || !b.Passed || *b.KV != v.Content.Digests.KV || b.KV.Hash != 1111843719 || b.WrittenRevision <= 1189 || len(b.NotChecked) != 0 {
			t.Errorf("%+v, %+v", v, b)
		}
	})
	t.Run("authentication and an alarm", func(t *testing.T) {
		t.Parallel()
		file, _ := everything(t)
		v := boot(t, file, local.Command{})
		if b := v.Boot; v.Verdict != snapshot.Restorable || !b.Passed || *b.KV != v.Content.Digests.KV || b.WrittenRevision != 0 || len(b.NotChecked) != 2 {
			t.Errorf("%+v, %+v", v, b)
		}
	})
	t.Run("raw copy, compaction pending", func(t *testing.T) {
		t.Parallel()
		data := filepath.Join(t.TempDir(), "data")
		r := oneMember()
		r.BumpRevision = 1000
		if _, err := restore(t, write(t, "s.db", realRegistry(t)), r, snapshot.RestoreTarget{DataDir: data}); err != nil {
			t.Fatal(err)
		}
		v := boot(t, filepath.Join(data, "member", "snap", "db"), local.Command{})
		if b := v.Boot; v.Verdict != snapshot.Unproven || !b.Passed || b.KV.Revision != 2189 || b.KV.CompactRevision != 2189 || b.WrittenRevision <= 2189 {
			t.Errorf("%+v, %+v", v, b)
		}
	})
}

// A member that ends, and one that serves something else: the file is not
// restorable, and nothing is left. What is not restorable anyway is not tried.
func TestBootFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	good := realRegistry(t)
	file := write(t, "s.db", good)
	for _, c := range []struct{ script, want string }{
		{"echo kvd: no good; exit 3", "no good"},
		{`exec "$0" serve "$@" --data-dir=` + t.TempDir(), "future revision"},
	} {
		v := boot(t, file, local.Command{Path: "/bin/sh", Args: []string{"-c", c.script, servertest.Binary(t)}})
		if v.Verdict != snapshot.NotRestorable || v.Class != snapshot.ClassBootFailed || v.Boot.Passed || !strings.Contains(v.Summary, c.want) || v.Boot.Log == "" {
			t.Errorf("%s: %+v, %+v", c.script, v, v.Boot)
		}
	}
	for _, script := range []string{"echo 'kvd: too few files'; echo 'hint: ulimit -n 65536'; exit 4", "kill -9 $$"} {
		v, err := snapshot.VerifyBoot(t.Context(), file, snapshot.BootOptions{Server: local.Command{Path: "/bin/sh", Args: []string{"-c", script}}}, progress.Discard)
		if fault.KindOf(err) != fault.Unavailable || v.Verdict != snapshot.Restorable || strings.Contains(fault.HintOf(err), os.TempDir()) {
			t.Errorf("%s: that is the machine's, not the file's: %+v, %v (%s)", script, v, err, fault.HintOf(err))
		}
	}
	for _, name := range []string{"cut.db", "text"} {
		content := good[:1_000_000]
		if name == "text" {
			content = []byte("hello")
		}
		if v := boot(t, write(t, name, content), local.Command{}); v.Verdict != snapshot.NotRestorable || v.Boot != nil {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
