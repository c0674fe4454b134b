//go:build long

package wal_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// finding returns the finding of a cause, or ends the test.
func finding(t *testing.T, v *wal.Verification, cause string) wal.Finding {
	t.Helper()
	i := slices.IndexFunc(v.Findings, func(f wal.Finding) bool { return f.Cause == cause })
	if i < 0 {
		t.Fatalf("no finding %s: %+v, %+v", cause, v.Verdict, v.Findings)
	}
	return v.Findings[i]
}

// A database that is lost is made anew from a log that goes back to its beginning,
// and from no other: not from one with a snapshot record, not even where a start that
// failed has left an empty one, and not from one that a restore has begun.
func TestVerdictsWithoutDatabase(t *testing.T) {
	t.Parallel()
	stock := local.Command{Path: servertest.Reference(t, "etcd")}
	for name, tc := range map[string]struct {
		snapshotCount int
		outcome       wal.Outcome
		cause         string
		severity      wal.Severity
	}{
		"no snapshot record": {100_000, wal.Starts, wal.CauseNoDB, wal.Warning},
		"a snapshot record":  {100, wal.Refuses, wal.DBBehindSnap, wal.Critical},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := newVictim(t, tc.snapshotCount).copy(t)
			trial.must(os.Remove(filepath.Join(trial.data, "member", "snap", "db")))
			v, err := wal.Verify(t.Context(), trial.data, wal.VerifyOptions{})
			trial.must(err)
			if f := finding(t, v, tc.cause); v.Verdict.Outcome != tc.outcome || f.Severity != tc.severity {
				t.Errorf("%+v, %+v", v.Verdict, f)
			}
			trial.hold(v, stock) // all revisions are there again, or it says what it should
			if tc.outcome == wal.Starts {
				return
			}
			v, err = wal.Verify(t.Context(), trial.data, wal.VerifyOptions{}) // with the empty database that the start left
			trial.must(err)
			if f := finding(t, v, wal.DBBehindSnap); !strings.Contains(f.Says, "the database is empty") || !strings.Contains(f.Says, "the log has all entries from 1 on") ||
				strings.Contains(f.Hint, "skip-hash-check") {
				t.Errorf("%+v", f)
			}
			trial.hold(v, stock)
		})
	}
	t.Run("restored", func(t *testing.T) {
		t.Parallel()
		c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
		puts(t, c.Client(t), 50)
		root := t.TempDir()
		file, data := filepath.Join(root, "s.db"), filepath.Join(root, "m1", "data")
		if err := os.Mkdir(filepath.Dir(data), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"snapshot", "save", file, "--endpoints", c.Endpoint(0)},
			{"snapshot", "restore", file, "--data-dir", data, "--yes"}} {
			if out, err := exec.Command(servertest.Binary(t), args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
		restored := &trial{t, &victim{}, root, data}
		v, err := wal.Verify(t.Context(), data, wal.VerifyOptions{})
		restored.must(err)
		if v.Verdict.Outcome != wal.Starts || v.Worst() != nil && v.Worst().Severity != wal.Remark {
			t.Errorf("%+v, %+v", v.Verdict, v.Findings)
		}
		restored.v.revision = 51
		restored.hold(v, stock)
		restored.must(os.Remove(filepath.Join(data, "member", "snap", "db")))
		v, err = wal.Verify(t.Context(), data, wal.VerifyOptions{})
		restored.must(err)
		if f := finding(t, v, wal.DBBehindSnap); !strings.Contains(f.Says, "the log was begun by a restore") {
			t.Errorf("%+v", f)
		}
		restored.hold(v, stock)
	})
}

// An old data directory that is put back looks whole by itself: what is said is
// with what to compare it. A leader that remembers more ends the member.
func TestVerdictOfAnOldCopy(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 60)
	follower := (c.Leader(t) + 1) % 3
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	old := filepath.Join(t.TempDir(), "data")
	must(c.StopMember(t.Context(), follower))
	must(os.CopyFS(old, os.DirFS(c.DataDir(follower))))
	must(c.StartMember(t.Context(), follower))
	puts(t, c.Client(t), 500)
	must(c.StopMember(t.Context(), follower))
	now, err := wal.Inspect(t.Context(), c.DataDir(follower))
	must(err)
	must(os.RemoveAll(c.DataDir(follower)))
	must(os.CopyFS(c.DataDir(follower), os.DirFS(old)))

	v, err := wal.Verify(t.Context(), c.DataDir(follower), wal.VerifyOptions{})
	must(err)
	if f := finding(t, v, wal.CauseCompare); v.Verdict.Outcome != wal.Starts || f.Severity != wal.Remark || !strings.Contains(f.Hint, "kvd status") ||
		!strings.Contains(f.Says, fmt.Sprintf("more than entry %d,", v.Numbers.Last.Index)) || now.Last.Index < v.Numbers.Last.Index+500 {
		t.Errorf("%+v, %+v; last entry %d, and %d before", v.Verdict, f, v.Numbers.Last.Index, now.Last.Index)
	}
	log, err := wal.Inspect(t.Context(), c.DataDir(follower))
	must(err)
	if m := wal.JudgeAmong(log, wal.Peers{Cluster: log.Cluster, Commit: now.Last.Index}); len(m) != 1 || m[0].Cause != wal.LogBehind {
		t.Errorf("%+v", m)
	}
	must(c.Launch(follower))
	select {
	case <-c.Exited(follower):
	case <-time.After(time.Minute):
		t.Fatal("it runs")
	}
	raw, err := os.ReadFile(c.LogPath(follower))
	if want := fmt.Sprintf("is out of range [lastIndex(%d)]", v.Numbers.Last.Index); err != nil || !strings.Contains(string(raw), want) {
		t.Errorf("it did not say %q: %v\n%s", want, err, c.LogTail(follower, 10))
	}
}
