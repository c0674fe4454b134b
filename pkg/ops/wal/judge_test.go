package wal_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/bbolt"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// backend reads what the judgement needs from a database, with bbolt itself.
func backend(t *testing.T, path string) wal.Backend {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out wal.Backend
	if err := db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		out.ConsistentIndex = binary.BigEndian.Uint64(meta.Get([]byte("consistent_index")))
		out.Term = binary.BigEndian.Uint64(meta.Get([]byte("term")))
		return tx.Bucket([]byte("members")).ForEach(func(k, _ []byte) error {
			var id wal.ID
			defer func() { out.Members = append(out.Members, id) }()
			return id.UnmarshalText(k)
		})
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func puts(t *testing.T, etcd *clientv3.Client, n int) {
	t.Helper()
	for i := range n {
		if _, err := etcd.Put(t.Context(), fmt.Sprintf("key-%04d", i), "v"); err != nil {
			t.Fatal(err)
		}
	}
}

func causes(ms []wal.Mismatch) (out []string) {
	for _, m := range ms {
		out = append(out, m.Cause)
	}
	return out
}

// A real member's log and database fit after an orderly end and after a kill, and
// do not where one of them is missing, old, or another member's.
func TestJudge(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 50)
	if err := c.StopMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	inspect := func(dir string) wal.Info {
		t.Helper()
		info, err := wal.Inspect(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	old, oldDB := inspect(c.DataDir(0)), backend(t, c.DBPath(0))
	if oldDB.ConsistentIndex < 50 || old.Last.Index < oldDB.ConsistentIndex || len(oldDB.Members) != 1 || oldDB.Members[0] != old.Member {
		t.Errorf("log %+v, database %+v", old, oldDB)
	}
	if old.Bytes < 64_000_000 || old.Used > 1<<20 || old.State.Term < 2 || old.State.Commit == 0 || old.Newest.Index != 0 {
		t.Errorf("%+v", old)
	}
	if err := c.StartMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	puts(t, c.Client(t), 120)
	live := inspect(filepath.Join(c.DataDir(0), "member", "wal")) // of a server that runs
	if live.Last.Index < old.Last.Index+120 || live.Metadata != old.Metadata {
		t.Errorf("live %+v, before %+v", live, old)
	}
	c.Kill(0)
	log, db := inspect(c.DataDir(0)), backend(t, c.DBPath(0))
	foreign := log
	foreign.Member++
	term := db
	term.ConsistentIndex, term.Term = log.Last.Index, log.Last.Term+1
	for _, tc := range []struct {
		name string
		log  *wal.Info
		db   wal.Backend
		want []string
	}{
		{"stopped", &old, oldDB, nil},
		{"killed", &log, db, nil},
		{"no log", nil, db, []string{wal.NoWAL}},
		{"neither", nil, wal.Backend{}, nil},
		{"an old log", &old, db, []string{wal.LogBehindDB}},
		{"an old database", &log, oldDB, nil},
		{"another's log", &foreign, db, []string{wal.NotAMember}},
		{"another's entry", &log, term, []string{wal.TermConflict}},
	} {
		if tc.name == "an old log" && old.Last.Index >= db.ConsistentIndex {
			t.Logf("the database was not committed since: %d", db.ConsistentIndex)
			continue
		}
		got := wal.Judge(tc.log, tc.db)
		if !slices.Equal(causes(got), tc.want) {
			t.Errorf("%s: %+v, want %v", tc.name, got, tc.want)
		}
	}
	for _, tc := range []struct {
		peers wal.Peers
		want  []string
	}{
		{wal.Peers{Cluster: log.Cluster, Commit: log.Last.Index}, nil},
		{wal.Peers{Cluster: log.Cluster, Commit: log.Last.Index + 7}, []string{wal.LogBehind}},
		{wal.Peers{Cluster: log.Cluster + 1, Commit: log.Last.Index + 7}, []string{wal.OtherCluster}},
	} {
		if got := wal.JudgeAmong(log, tc.peers); !slices.Equal(causes(got), tc.want) {
			t.Errorf("%+v: %+v, want %v", tc.peers, got, tc.want)
		}
	}
	if err := os.RemoveAll(filepath.Join(c.DataDir(0), "member", "wal")); err != nil {
		t.Fatal(err)
	}
	if _, err := wal.Inspect(t.Context(), c.DataDir(0)); err == nil {
		t.Error("a folder without a log was inspected")
	}
}
