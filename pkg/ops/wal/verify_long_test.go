//go:build long

package wal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Every scene, with the stock server that kvd serve is built on: it has no guards
// of its own before it starts.
func TestVerdictsOfStock(t *testing.T) {
	t.Parallel()
	holdScenes(t, local.Command{Path: servertest.Reference(t, "etcd")}, func(scene) bool { return true })
}

func TestVerifyLiveManyTimes(t *testing.T) {
	t.Parallel()
	looks(t, 100)
}

// One of three members whose log ends before its database starts, and ends at the
// first word of a leader that remembers what it had acknowledged.
func TestVerdictAmongThree(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 60)
	follower := (c.Leader(t) + 1) % 3
	if err := c.StopMember(t.Context(), follower); err != nil {
		t.Fatal(err)
	}
	var entries []wal.Record
	if err := wal.Records(t.Context(), c.DataDir(follower), func(r wal.Record) error {
		if r.Type == wal.EntryType {
			r.Data, r.Entry.Data = nil, nil
			entries = append(entries, r)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	cut := entries[len(entries)-20]
	if err := os.Truncate(filepath.Join(c.DataDir(follower), "member", "wal", cut.File), cut.Offset+20); err != nil {
		t.Fatal(err)
	}
	v, err := wal.Verify(t.Context(), c.DataDir(follower), wal.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(v.Findings, func(f wal.Finding) bool { return f.Cause == wal.LogBehindDB })
	if v.Verdict.Outcome != wal.Repairs || i < 0 || v.Findings[i].Severity != wal.Critical {
		t.Fatalf("%+v, %+v", v.Verdict, v.Findings)
	}
	if err := c.Launch(follower); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Exited(follower):
	case <-time.After(time.Minute):
		t.Fatal("it runs")
	}
	raw, err := os.ReadFile(c.LogPath(follower))
	if err != nil || !regexp.MustCompile(`tocommit\(\d+\) is out of range \[lastIndex\(\d+\)\]`).Match(raw) {
		t.Errorf("%v\n%s", err, c.LogTail(follower, 10))
	}
}
