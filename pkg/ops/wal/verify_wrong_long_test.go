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
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

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
	remove(t, c, before.Member)
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

// remove has a cluster remove a member.
func remove(t *testing.T, c *servertest.Cluster, member wal.ID) {
	t.Helper()
	etcd, deadline := c.Client(t), time.Now().Add(time.Minute)
	for { // refused until all have been connected for a while
		_, err := etcd.MemberRemove(t.Context(), uint64(member))
		if err == nil || errors.Is(err, rpctypes.ErrMemberNotFound) { // removed by a request before, whose answer came too late
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// A member that was removed while it was down does not know: it starts, and ends as soon
// as one of the others tells it, also where it has got the entry and not that it is
// committed. As long as none is reached it waits for a leader.
func TestVerdictOfRemovedWhileDown(t *testing.T) {
	t.Parallel()
	stock := local.Command{Path: servertest.Reference(t, "etcd")}
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Command: stock, Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 20)
	other := c.Leader(t)
	gone := (other + 1) % 3
	if err := c.StopMember(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	const ends = "the member has been permanently removed from the cluster"
	look := func(cause string) *wal.Verification {
		t.Helper()
		v, err := wal.Verify(t.Context(), c.DataDir(gone), wal.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if f := finding(t, v, cause); v.Verdict.Outcome != wal.Starts || !strings.Contains(f.Says, ends) || f.Severity != wal.Remark {
			t.Errorf("%+v, %+v", v.Verdict, f)
		}
		return v
	}
	launch := func() (log func() string) {
		t.Helper()
		old, err := os.ReadFile(c.LogPath(gone))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Launch(gone); err != nil {
			t.Fatal(err)
		}
		return func() string {
			all, _ := os.ReadFile(c.LogPath(gone))
			return string(bytes.TrimPrefix(all, old))
		}
	}
	ended := func(what string, log func() string) {
		t.Helper()
		select {
		case <-c.Exited(gone):
		case <-time.After(time.Minute):
			t.Errorf("%s: it runs", what)
		}
		if !strings.Contains(log(), ends) {
			t.Errorf("%s: it ended without the words\n%s", what, c.LogTail(gone, 10))
		}
	}
	v := look(wal.CauseCompare)
	if f := finding(t, v, wal.CauseCompare); !strings.Contains(f.Hint, "kvd member list") {
		t.Error(f.Hint)
	}
	remove(t, c, v.Member)
	look(wal.CauseCompare)
	ended("it has not heard of it", launch())

	v = look(wal.CauseCompare)
	appendEntries(t, c.DataDir(gone), c.DataDir(other), v.Numbers.Last.Index+1)
	look(wal.CauseUncommitted)
	ended("it has the entry", launch())

	for i := range 3 {
		c.Kill(i)
	}
	look(wal.CauseCompare)
	log := launch()
	select {
	case <-c.Exited(gone):
		t.Errorf("it reaches nobody, and ended\n%s", c.LogTail(gone, 10))
	case <-time.After(10 * time.Second):
	}
	if strings.Contains(log(), ends) {
		t.Error("it reaches nobody, and says that it was removed")
	}
}

// appendEntries writes the entries that one member's log has from an index on to the end
// of another's, as those that have come and are not known to be committed.
func appendEntries(t *testing.T, to, from string, index uint64) {
	t.Helper()
	var entries []*raftpb.Entry
	if err := wal.Records(t.Context(), from, func(r wal.Record) error {
		if r.Type == wal.EntryType && r.Entry.Index >= index {
			entries = append(entries, &raftpb.Entry{Index: new(r.Entry.Index), Term: new(r.Entry.Term), Type: raftpb.EntryType(r.Entry.Type).Enum(), Data: bytes.Clone(r.Entry.Data)})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w, err := etcdwal.Open(zap.NewNop(), filepath.Join(to, "member", "wal"), &walpb.Snapshot{Index: new(uint64(0)), Term: new(uint64(0))})
	if err != nil {
		t.Fatal(err)
	}
	_, state, _, err := w.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Save(state, entries), w.Close()); err != nil || len(entries) == 0 {
		t.Fatal(len(entries), err)
	}
}
