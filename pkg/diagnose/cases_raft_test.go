package diagnose_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/servertest"
)

// Case C77: how many failures are survived, by who votes and who answers.
func TestCaseTolerance(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 0)
	belongs(t, look(t, connect(t, c)))
	stop(t, c, 2)
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-NET-001 warning", "KVD-RAFT-007 warning")
	f := finding(t, r, "KVD-RAFT-007")
	if evidence(t, f, "voters").Value != 3 || evidence(t, f, "of them answer").Value != 2 || len(f.ExplainedBy) == 0 {
		t.Errorf("%+v", f)
	}
	if err := c.StartMember(servertest.Context(t, time.Minute), 2); err != nil {
		t.Fatal(err)
	}
	good := look(t, connect(t, c))
	belongs(t, good)
	remedied(t, "KVD-NET-001", r, good, "start m3 again")
	remedied(t, "KVD-RAFT-007", r, good, "start m3 again")
}

// waitFor waits until something is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		if so() {
			return
		}
	}
	t.Fatal("it did not come about within a minute")
}

// Case C76 (a): the second voter of a cluster of one never started. Live, and from
// the directory when nothing answers any more.
func TestCaseUnstarted(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	put(t, c.Client(t), "a", 20, 20, 10)
	i, err := c.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client(t).MemberAdd(servertest.Context(t, time.Minute), []string{c.PeerURL(i)}); err != nil {
		t.Fatal(err)
	}
	client := connect(t, c, c.Endpoint(0))
	waitFor(t, func() bool { v, err := client.View(t.Context()); return err == nil && v.Leader == 0 })
	r := look(t, client)
	belongs(t, r, "KVD-RAFT-001 critical", "KVD-RAFT-002 critical", "KVD-RAFT-008 critical")
	shows(t, r, "KVD-RAFT-001")
	shows(t, r, "KVD-RAFT-002")
	if f := r.Findings[0]; f.ID != "KVD-RAFT-008" {
		t.Errorf("the root cause comes first, not %s", f.ID)
	}
	stop(t, c, 0)
	off := lookAt(t, c.DataDir(0))
	belongs(t, off, "KVD-RAFT-008 critical")
	mentions(t, finding(t, off, "KVD-RAFT-008").Summary, "the quorum is 2 of 2", "a start waits for it and answers nothing")
	to := filepath.Join(t.TempDir(), "new")
	kvd(t, "snapshot", "restore", filepath.Join(c.DataDir(0), "member", "snap", "db"), "--skip-hash-check", "--data-dir", to, "--yes")
	good := lookAt(t, to)
	belongs(t, good)
	remedied(t, "KVD-RAFT-008", r, good, "kvd snapshot restore DATA-DIR/member/snap/db --skip-hash-check --data-dir NEW --yes")
}

// Case C76 (b): one member has a record of a peer that is long gone.
func TestCaseZombie(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 0)
	stop(t, c, 0)
	db, err := bolt.Open(c.DBPath(0), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("members")).Put([]byte("deadbeef00000001"),
			[]byte(`{"id":16045690981097406465,"peerURLs":["http://127.0.0.1:9"],"name":"gone","clientURLs":["http://127.0.0.1:9"]}`))
	})
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if err := c.Launch(0); err != nil {
		t.Fatal(err)
	}
	client := connect(t, c)
	waitFor(t, func() bool { v, err := client.View(t.Context()); return err == nil && len(v.Answered()) >= 3 })
	r := look(t, client)
	belongs(t, r, "KVD-RAFT-010 warning")
	f := finding(t, r, "KVD-RAFT-010")
	mentions(t, f.Summary, "m1", "gone (deadbeef00000001)")
	shows(t, r, "KVD-RAFT-010")
}

// lookWithDir diagnoses a cluster with the directory of a member that does not run.
func lookWithDir(t *testing.T, client *cluster.Client, dir string) diagnose.Report {
	t.Helper()
	in, err := diagnose.Collect(servertest.Context(t, time.Minute), client, options(), discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.AddDir(t.Context(), dir, diagnose.DirOptions{}, discard); err != nil {
		t.Fatal(err)
	}
	return diagnose.Diagnose(in)
}

// Case C80: each endpoint that does not answer has its own cause, and those that do
// are not lost.
func TestCaseEndpoints(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	r := look(t, connect(t, c, c.Endpoint(0), "http://127.0.0.1:1", strings.Replace(c.Endpoint(0), "http", "https", 1), c.PeerURL(0)))
	causes := map[string]bool{}
	for _, f := range r.Findings {
		if f.ID != "KVD-NET-001" || len(f.Remedy) == 0 {
			t.Errorf("%+v", f)
		}
		causes[f.Evidence[0].Text] = true
	}
	for _, want := range []string{cluster.CauseConnectionRefused, cluster.CauseTLSNotSupported, cluster.CausePeerPort} {
		if !causes[want] {
			t.Errorf("%s is not among %v", want, causes)
		}
	}
	_, err := diagnose.Collect(t.Context(), connect(t, c, "http://127.0.0.1:1"), options(), discard)
	if fault.CauseOf(err) != cluster.CauseConnectionRefused {
		t.Errorf("nobody answers: %v", err)
	}
}
