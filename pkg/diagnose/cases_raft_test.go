package diagnose_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/servertest"
)

// Case C77: how many failures are survived, by who votes and who answers.
func TestCaseTolerance(t *testing.T) {
	t.Parallel()
	silent, dead := "KVD-NET-001 warning", "KVD-NET-001 critical"
	for i, p := range []struct {
		name  string
		shape shape
		down  []int
		want  []string
		slow  bool
	}{
		{name: "three, one down", shape: shape{members: 3}, down: []int{2}, want: []string{silent, "KVD-RAFT-007 warning"}},
		{name: "three with certificates and users, one down", shape: shape{members: 3, mtls: true, auth: true}, down: []int{0}, want: []string{silent, "KVD-RAFT-007 warning"}, slow: true},
		{name: "five, one down", shape: shape{members: 5}, down: []int{1}, want: []string{silent}, slow: true},
		{name: "five, two down", shape: shape{members: 5}, down: []int{1, 4}, want: []string{silent, silent, "KVD-RAFT-007 warning"}, slow: true},
		{name: "three, two down", shape: shape{members: 3}, down: []int{1, 2}, want: []string{dead, dead, "KVD-RAFT-001 critical", "KVD-RAFT-002 critical"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := p.shape.start(t)
			belongs(t, look(t, connect(t, c)))
			stop(t, c, p.down...)
			client := connect(t, c)
			if lost := len(p.down) > c.Len()/2; lost || slices.Contains(p.down, 0) {
				waitFor(t, func() bool { v, err := client.View(t.Context()); return err == nil && (v.Leader == 0) == lost })
			}
			r := look(t, client)
			belongs(t, r, p.want...)
			for _, id := range []string{"KVD-RAFT-007", "KVD-RAFT-002"} {
				if !r.Has(id) {
					continue
				}
				f := finding(t, r, id)
				if int(evidence(t, f, "voters").Value) != c.Len() || int(evidence(t, f, "of them answer").Value) != c.Len()-len(p.down) || len(f.ExplainedBy) == 0 {
					t.Errorf("%+v", f)
				}
			}
			for _, m := range p.down {
				if err := c.Launch(m); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.WaitReady(servertest.Context(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
			good := look(t, connect(t, c))
			belongs(t, good)
			if i == 0 {
				remedied(t, "KVD-NET-001", r, good, "start m3 again")
				remedied(t, "KVD-RAFT-007", r, good, "start m3 again")
			}
		})
	}
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

// Case C76 (a): a voter was added and never started. Live, and from the directory
// when nothing answers any more.
func TestCaseUnstarted(t *testing.T) {
	t.Parallel()
	lost := []string{"KVD-RAFT-001 critical", "KVD-RAFT-002 critical", "KVD-RAFT-008 critical"}
	for i, p := range []struct {
		name    string
		shape   shape
		want    []string
		offline string
		says    string
		slow    bool
	}{
		{name: "the second of two", want: lost, offline: "KVD-RAFT-008 critical", says: "the quorum is 2 of 2"},
		{name: "the second of two, with certificates and users", shape: shape{mtls: true, auth: true}, want: lost, offline: "KVD-RAFT-008 critical", says: "the quorum is 2 of 2", slow: true},
		{name: "the fourth of four", shape: shape{members: 3}, want: []string{"KVD-RAFT-007 warning", "KVD-RAFT-008 warning"}, offline: "KVD-RAFT-008 warning", says: "the quorum is 3 of 4", slow: true},
		{name: "the sixth of six", shape: shape{members: 5}, want: []string{"KVD-RAFT-008 warning", "KVD-RAFT-009 info"}, offline: "KVD-RAFT-008 warning", says: "the quorum is 4 of 6", slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := p.shape.start(t)
			put(t, c.Client(t), "a", 20, 20, 10)
			started := c.Endpoints()
			added, err := c.Reserve()
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { // etcd refuses until all have been connected for 5 s
				_, err := c.Client(t, started...).MemberAdd(servertest.Context(t, time.Minute), []string{c.PeerURL(added)})
				return err == nil
			})
			client := connectAs(t, c, "", "", started...) // a login would take a quorum; a certificate takes none
			waitFor(t, func() bool {
				v, err := client.View(t.Context())
				return err == nil && len(v.Members) == added+1 && (v.Leader == 0) == (added == 1)
			})
			r := look(t, client)
			belongs(t, r, p.want...)
			mentions(t, finding(t, r, "KVD-RAFT-008").Summary, p.says)
			if f := r.Findings[0]; p.shape.members == 0 && f.ID != "KVD-RAFT-008" {
				t.Errorf("the root cause comes first, not %s", f.ID)
			}
			settleDisk(t)
			for i := range added {
				stop(t, c, i)
			}
			off := lookAt(t, c.DataDir(0))
			belongs(t, off, p.offline)
			mentions(t, finding(t, off, "KVD-RAFT-008").Summary, p.says)
			if p.shape.members == 0 {
				mentions(t, finding(t, off, "KVD-RAFT-008").Summary, "a start waits for it and answers nothing")
			}
			to := filepath.Join(t.TempDir(), "new")
			kvd(t, "snapshot", "restore", c.DBPath(0), "--skip-hash-check", "--data-dir", to, "--yes")
			good := lookAt(t, to)
			belongs(t, good)
			if i == 0 {
				shows(t, r, "KVD-RAFT-001")
				shows(t, r, "KVD-RAFT-002")
				remedied(t, "KVD-RAFT-008", r, good, "kvd snapshot restore DATA-DIR/member/snap/db --skip-hash-check --data-dir NEW --yes")
			}
		})
	}
}

// Case C76 (b): a member has another list of members than the others.
func TestCaseZombie(t *testing.T) {
	t.Parallel()
	zombie := func(b *bolt.Bucket, _ string) error { // a peer that is long gone
		return b.Put([]byte("deadbeef00000001"), []byte(`{"id":16045690981097406465,"peerURLs":["http://127.0.0.1:9"],"name":"gone","clientURLs":["http://127.0.0.1:9"]}`))
	}
	moved := func(b *bolt.Bucket, last string) error { // and another has other peer URLs here
		return b.Put([]byte(last), bytes.Replace(b.Get([]byte(last)), []byte(`"peerURLs":["http://127.0.0.1:`), []byte(`"peerURLs":["http://127.0.0.2:`), 1))
	}
	for i, p := range []struct {
		name   string
		shape  shape
		member int
		change func(b *bolt.Bucket, last string) error
		says   []string
		slow   bool
	}{
		{name: "one more, of three", shape: shape{members: 3}, member: 0, change: zombie, says: []string{"has gone (deadbeef00000001)"}},
		{name: "one more, of five with certificates and users", shape: shape{members: 5, mtls: true, auth: true}, member: 3, change: zombie, says: []string{"has gone (deadbeef00000001)"}, slow: true},
		{name: "one elsewhere, of three", shape: shape{members: 3}, member: 1, change: moved, says: []string{"lacks m3", "has m3", "at http://127.0.0.2:"}, slow: true},
		{name: "one more, of etcd 3.6", shape: shape{members: 3, version: "3.6"}, member: 2, change: zombie, says: []string{"has gone (deadbeef00000001)"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := p.shape.start(t)
			s, err := c.Client(t).Status(t.Context(), c.Endpoint(c.Len()-1))
			if err != nil {
				t.Fatal(err)
			}
			stop(t, c, p.member)
			db, err := bolt.Open(c.DBPath(p.member), 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(func(tx *bolt.Tx) error {
				return p.change(tx.Bucket([]byte("members")), fmt.Sprintf("%x", s.Header.MemberId))
			})
			if cerr := db.Close(); err != nil || cerr != nil {
				t.Fatal(err, cerr)
			}
			if err := c.Launch(p.member); err != nil {
				t.Fatal(err)
			}
			client := connect(t, c)
			waitFor(t, func() bool { v, err := client.View(t.Context()); return err == nil && len(v.Answered()) >= c.Len() })
			r := look(t, client)
			belongs(t, r, "KVD-RAFT-010 warning")
			f := finding(t, r, "KVD-RAFT-010")
			mentions(t, f.Summary, append(p.says, "the member list of "+c.Name(p.member)+" differs")...)
			if i == 0 {
				shows(t, r, "KVD-RAFT-010")
			}
		})
	}
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
