//go:build long

package wal_test

import (
	"bytes"
	"os"
	"os/exec"
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

// No call that could change or lock anything is made on a running server's files.
func TestVerifySystemCalls(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip(err)
	}
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 50)
	lock := regexp.MustCompile(`flock\(|F_(OFD_)?SETLKW?|O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|(rename|unlink|link|truncate|fallocate|mkdir|chmod|utimens)\w*\(`)
	for _, command := range []string{"verify", "list"} {
		trace := filepath.Join(t.TempDir(), "trace")
		out, err := exec.Command("strace", "-f", "-y", "-o", trace, "-e", "trace=%file,%desc", servertest.Binary(t), "wal", command, c.DataDir(0)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		raw, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		reads := 0
		for line := range bytes.Lines(raw) {
			if !bytes.Contains(line, []byte(c.DataDir(0))) {
				continue
			}
			reads++
			if lock.Match(line) {
				t.Errorf("wal %s: %s", command, line)
			}
		}
		if reads < 20 {
			t.Errorf("wal %s: %d calls seen", command, reads)
		}
	}
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
