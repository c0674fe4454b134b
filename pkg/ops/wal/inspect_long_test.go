//go:build long

package wal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A hundred looks at the log of a server that is written to as fast as it can: each
// command ends well each time, what it has seen has no gap and ends no earlier than
// before, and the kernel was asked for nothing that could change the data directory or
// hold up the server.
func TestInspectionsUnderLoad(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip(err)
	}
	for _, command := range []string{"verify", "list", "stats", "dump"} {
		t.Run(command, func(t *testing.T) {
			c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync", "--snapshot-count=500"}}})
			etcd := c.Client(t)
			ctx, cancel := context.WithCancel(t.Context())
			var writers sync.WaitGroup
			defer writers.Wait()
			defer cancel()
			for w := range 8 {
				writers.Go(func() {
					for k := 0; ctx.Err() == nil; k++ {
						_, _ = etcd.Put(ctx, fmt.Sprintf("key-%d-%d", w, k%50), strings.Repeat("v", 37*k%2000))
					}
				})
			}
			inspect(t, command, c.DataDir(0), 25)
		})
	}
}

// inspect runs a command n times and watches what it asks the kernel for.
func inspect(t *testing.T, command, dir string, n int) {
	t.Helper()
	changes := regexp.MustCompile(`O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|flock\(|F_(OFD_)?SETLK|\b(rename|unlink|link|symlink|truncate|ftruncate|fallocate|mkdir|chmod|fchmod|utimens)\w*\(|write\w*\(\d+<` +
		regexp.QuoteMeta(dir))
	trace, last, calls := filepath.Join(t.TempDir(), "trace"), uint64(0), 0
	for range n {
		cmd := exec.Command("strace", "-f", "-y", "-s", "1000", "-o", trace, "-e", "trace=%file,%desc", servertest.Binary(t), "wal", command, dir, "-o", "json")
		var complaint strings.Builder
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, complaint.String())
		}
		seen := lastSeen(t, command, out)
		if seen < last {
			t.Fatalf("it ends with entry %d, and %d was seen before", seen, last)
		}
		last = seen
		raw, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			if !strings.Contains(line, dir) {
				continue
			}
			if calls++; changes.MatchString(line) {
				t.Error(line)
			}
		}
	}
	if last < 500 || calls < 10*n {
		t.Errorf("%d entries, %d calls about the data directory were seen", last, calls)
	}
	t.Logf("%d times: %d entries at the end, %d calls about the data directory", n, last, calls)
}

// lastSeen is the last entry that a command has seen, all before it being there.
func lastSeen(t *testing.T, command string, out []byte) (index uint64) {
	t.Helper()
	if command == "dump" {
		for line := range strings.Lines(string(out)) {
			var l struct{ Index uint64 }
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.Index != index+1 && index > 0 {
				t.Fatalf("behind %d: %.300s, %v", index, line, err)
			}
			index = l.Index
		}
		return index
	}
	type entry struct{ Index uint64 }
	var seen struct {
		Verdict struct{ Outcome string }
		Numbers struct {
			Last entry `json:"last_entry"`
		}
		Segments json.RawMessage
		First    entry `json:"first_entry"`
		Last     entry `json:"last_entry"`
		Entries  uint64
		Damages  int64 `json:"damages_found"`
	}
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatal(err)
	}
	var segments []struct {
		First entry `json:"first_entry"`
	}
	switch command {
	case "verify":
		seen.Last, seen.First.Index = seen.Numbers.Last, seen.Numbers.Last.Index+1-seen.Entries
	case "list":
		if err := json.Unmarshal(seen.Segments, &segments); err != nil {
			t.Fatal(err)
		}
		seen.First = segments[0].First
	}
	if seen.Damages != 0 || command == "verify" && seen.Verdict.Outcome != "starts" || seen.Entries != seen.Last.Index+1-seen.First.Index {
		t.Fatalf("wal %s: %.600s", command, out)
	}
	return seen.Last.Index
}
