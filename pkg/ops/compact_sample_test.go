package ops_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/revclock"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// said collects what a library tells.
type said struct{ warned, told []string }

func (s *said) Event(e progress.Event) {
	if e.Warning {
		s.warned = append(s.warned, e.Note)
	} else {
		s.told = append(s.told, e.Note)
	}
}

func sampler(t *testing.T, endpoints []string, dir string, save bool) (*ops.RevisionSampler, *said) {
	t.Helper()
	client, err := cluster.Connect(cluster.Config{Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	tell := &said{}
	s, err := ops.NewRevisionSampler(client, time.Minute, dir, save, tell)
	if err != nil {
		t.Fatal(err)
	}
	return s, tell
}

// TestForeignStateIsMovedAside: whether the cluster answers when the sampler
// begins or only later, a file that kvd did not write is kept under another
// name, and sampling goes on.
func TestForeignStateIsMovedAside(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	_, view := connect(t, c)
	for _, down := range []bool{false, true} {
		for _, content := range []string{`{"format":"kvd-revclock-9","samples":[{"at":"x"}]}`, `{"format":"kvd-rev`, "\x00\xff", strings.Repeat("x", 17<<20)} {
			dir := t.TempDir()
			path := revclock.Path(dir, view.ID)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			s, tell := sampler(t, c.Endpoints(), dir, true)
			if down {
				if err := c.StopMember(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				if err := s.Sample(t.Context()); fault.KindOf(err) != fault.Unavailable {
					t.Fatalf("without a cluster: %v", err)
				}
				tell.warned = nil
				if err := c.StartMember(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := s.Sample(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if len(tell.warned) != 1 || !strings.Contains(tell.warned[0], ".bad") {
				t.Errorf("down %v: warned %q", down, tell.warned)
			}
			bad, _ := filepath.Glob(path + ".*.bad")
			if len(bad) != 1 {
				t.Fatalf("moved aside: %v", bad)
			}
			if raw, err := os.ReadFile(bad[0]); err != nil || !bytes.Equal(raw, []byte(content)) {
				t.Errorf("what was moved aside has %d bytes, %v; it had %d", len(raw), err, len(content))
			}
			if l, _, err := revclock.Load(dir, view.ID, time.Minute, time.Now(), 0); err != nil || l.Len() == 0 {
				t.Errorf("nothing was kept: %v", err)
			}
		}
	}
}

// TestADryRunTouchesNoState: it says the same and leaves everything as it is.
func TestADryRunTouchesNoState(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	_, view := connect(t, c)
	dir := t.TempDir()
	path := revclock.Path(dir, view.ID)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, tell := sampler(t, c.Endpoints(), dir, false)
	if err := s.Sample(t.Context()); err != nil || len(tell.warned) != 1 || !strings.Contains(tell.warned[0], "would move it aside") {
		t.Errorf("%v, warned %q", err, tell.warned)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 || names[0] != path {
		t.Errorf("there is %v", names)
	}
}

// TestAFullStateDirEndsNothing: samples are taken, it is said once that they are
// not kept, and once that they are again.
func TestAFullStateDirEndsNothing(t *testing.T) {
	dir := t.TempDir()
	servertest.MountSmall(t, dir, 1)
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	filler := filepath.Join(dir, "filler")
	_ = os.WriteFile(filler, make([]byte, 2<<20), 0o600) // as much as goes in
	s, tell := sampler(t, c.Endpoints(), dir, true)
	for range 3 {
		if err := s.Sample(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if sampled, saved := s.Times(); sampled.IsZero() || !saved.IsZero() || s.Before(time.Now()).Spans <= 0 {
		t.Errorf("sampled %s, saved %s, %+v", sampled, saved, s.Before(time.Now()))
	}
	if len(tell.warned) != 1 || !strings.Contains(tell.warned[0], "not kept through a restart") || !strings.Contains(tell.warned[0], "no space left") {
		t.Errorf("warned %q", tell.warned)
	}
	// Another cause is told of as well.
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	_, view := connect(t, c)
	path := revclock.Path(dir, view.ID)
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Sample(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(tell.warned) != 2 || strings.Contains(tell.warned[1], "no space left") {
		t.Errorf("warned %q", tell.warned)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	tell.told = nil
	if err := s.Sample(t.Context()); err != nil || len(tell.told) != 1 || !strings.Contains(tell.told[0], "again") {
		t.Errorf("%v, told %q", err, tell.told)
	}
	if _, saved := s.Times(); saved.IsZero() {
		t.Error("not saved")
	}
}
