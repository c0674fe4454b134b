//go:build long

package snapshot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"testing"
	"time"

	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// What a real server does with each: whichever it does not start from, or starts
// from and then ruins, is not restorable.
func TestServersOnDamagedFreelists(t *testing.T) {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	ctx := servertest.Context(t, 8*time.Minute)
	fill := func() error {
		for i := range 300 {
			if _, err := c.Client(t).Put(ctx, fmt.Sprintf("/k/%d", i), string(make([]byte, 2000))); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(); err != nil {
		t.Fatal(err)
	}
	if err := c.StopMember(ctx, 0); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(c.DBPath(0))
	if err != nil {
		t.Fatal(err)
	}
	listed := withFreelist(t, append(bytes.Clone(good), make([]byte, sha256.Size)...))
	started := map[bool]int{}
	for name, damage := range freelistDamages() {
		b := bytes.Clone(listed)
		damage(b)
		if v := verify(t, "s.db", rehash(b)); v.Verdict != snapshot.NotRestorable || v.Class != snapshot.ClassBadFreelist {
			t.Errorf("%s: %s (%s) %s", name, v.Verdict, v.Class, v.Summary)
		}
		if err := os.WriteFile(c.DBPath(0), b[:len(b)-sha256.Size], 0o600); err != nil {
			t.Fatal(err)
		}
		start, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := c.StartMember(start, 0)
		cancel()
		started[err == nil]++
		t.Logf("%s: start %v", name, err)
		c.Kill(0)
	}
	if started[false] < 5 || started[true] < 1 {
		t.Errorf("%d started, %d did not", started[true], started[false])
	}
	// The good one again, with its freelist whole: a server takes it.
	if err := os.WriteFile(c.DBPath(0), listed[:len(listed)-sha256.Size], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.StartMember(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := fill(); err != nil {
		t.Fatal(err)
	}
}
