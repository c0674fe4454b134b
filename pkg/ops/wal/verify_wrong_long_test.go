//go:build long

package wal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// With another cluster's database, one that is empty, or one that cannot be opened beside
// a log that goes back to its beginning, the hint is to move it away; and then all is
// there again. Nothing is ever to be restored from another cluster's.
func TestVerdictsOfWrongDatabases(t *testing.T) {
	t.Parallel()
	stock := local.Command{Path: servertest.Reference(t, "etcd")}
	v := newVictim(t, 100_000)
	for name, tc := range map[string]struct {
		hurt    func(t *trial, db string)
		outcome wal.Outcome
		cause   string
	}{
		"another cluster's":                  {func(t *trial, db string) { copyFile(t.T, otherDB(t.T, 5), db) }, wal.Refuses, wal.NotAMember},
		"another cluster's, which is longer": {func(t *trial, db string) { copyFile(t.T, otherDB(t.T, 500), db) }, wal.Refuses, wal.NotAMember},
		"no pages":                           {func(t *trial, db string) { t.mend(db, func(b []byte) { clear(b[:8192]) }) }, wal.Refuses, wal.CauseUnread},
		"0 bytes":                            {func(t *trial, db string) { t.must(os.Truncate(db, 0)) }, wal.Starts, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := v.copy(t)
			db := filepath.Join(trial.data, "member", "snap", "db")
			tc.hurt(trial, db)
			got, err := wal.Verify(t.Context(), trial.data, wal.VerifyOptions{})
			trial.must(err)
			if got.Verdict.Outcome != tc.outcome {
				t.Fatalf("%+v, %+v", got.Verdict, got.Findings)
			}
			trial.hold(got, stock)
			if tc.outcome == wal.Starts {
				return
			}
			if f := finding(t, got, tc.cause); !strings.Contains(f.Hint, "move "+db+" away") || strings.Contains(f.Hint, "snapshot restore") {
				t.Error(f.Hint)
			}
			trial.must(os.Rename(db, db+".kept"))
			got, err = wal.Verify(t.Context(), trial.data, wal.VerifyOptions{})
			trial.must(err)
			if got.Verdict.Outcome != wal.Starts {
				t.Errorf("%+v", got.Verdict)
			}
			trial.hold(got, stock)
		})
	}
}

// A database that a leader sent, with none beside it, is destroyed by a start, as the
// verdict says.
func TestSentDatabaseRemoved(t *testing.T) {
	t.Parallel()
	trial := newVictim(t, 100).copy(t)
	sent, db := trial.sentDB(), filepath.Join(trial.data, "member", "snap", "db")
	trial.must(os.Rename(db, sent))
	got, err := wal.Verify(t.Context(), trial.data, wal.VerifyOptions{})
	trial.must(err)
	if f := finding(t, got, wal.CauseNoDB); !strings.Contains(f.Hint, "cp "+sent+" "+db) {
		t.Error(f.Hint)
	}
	trial.hold(got, local.Command{Path: servertest.Reference(t, "etcd")})
	for _, path := range []string{sent, db} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
}

// A member that was removed, and knows it, starts and ends.
func TestVerdictOfRemoved(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 20)
	gone := (c.Leader(t) + 1) % 3
	before, err := wal.Verify(t.Context(), c.DataDir(gone), wal.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	etcd, deadline := c.Client(t), time.Now().Add(time.Minute)
	for { // refused until all have been connected for a while
		_, err := etcd.MemberRemove(t.Context(), uint64(before.Member))
		if err == nil || errors.Is(err, rpctypes.ErrMemberNotFound) { // removed by a request before, whose answer came too late
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	select {
	case <-c.Exited(gone):
	case <-time.After(time.Minute):
		t.Fatal("it runs")
	}
	for i := range 3 { // so that none of the others tells it
		c.Kill(i)
	}
	v, err := wal.Verify(t.Context(), c.DataDir(gone), wal.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := finding(t, v, wal.NotAMember)
	if !strings.Contains(f.Hint, "kvd member add m") || strings.Contains(f.Hint, "NAME") {
		t.Errorf("%+v", f)
	}
	if err := c.Launch(gone); err != nil {
		t.Fatal(err)
	}
	ended := false
	select {
	case <-c.Exited(gone):
		ended = true
	case <-time.After(20 * time.Second):
	}
	raw, err := os.ReadFile(c.LogPath(gone))
	if err != nil || ended != (v.Verdict.Outcome == wal.Refuses) || !bytes.Contains(raw, []byte(v.Verdict.Message)) {
		t.Errorf("%v, ended: %v, verdict %+v\n%s", err, ended, v.Verdict, c.LogTail(gone, 10))
	}
}
