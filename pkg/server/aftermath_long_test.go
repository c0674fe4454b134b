//go:build long

package server_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A data directory from a backup is put back under a member (C61): raft finds
// that the log went backwards. etcd ends there with a stack trace and exit code
// 2; kvd says what it is and what remedies it, and exits 7.
func TestOldDataDirPutBack(t *testing.T) {
	for _, tc := range []struct {
		name             string
		members, entries int
		tls              bool
	}{
		{"three members, 500 entries later", 3, 500, false},
		{"five members, 50 entries later", 5, 50, false},
		{"three members, mutual TLS, 200 entries later", 3, 200, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := servertest.Options{Options: local.Options{Members: tc.members, Args: []string{"--unsafe-no-fsync"}}}
			if tc.tls {
				o.TLS = servertest.NewCerts(t).MutualTLS()
			}
			c := servertest.Start(t, o)
			leader := c.Leader(t)
			victim := (leader + 1) % tc.members
			put := func(n int) {
				cli := c.Client(t, c.Endpoint(leader))
				for i := range n {
					if _, err := cli.Put(servertest.Context(t, 30*time.Second), fmt.Sprintf("k%d", i), "v"); err != nil {
						t.Fatal(err)
					}
				}
			}
			put(20)
			if err := c.StopMember(t.Context(), victim); err != nil {
				t.Fatal(err)
			}
			old := t.TempDir()
			if err := os.CopyFS(old, os.DirFS(c.DataDir(victim))); err != nil {
				t.Fatal(err)
			}
			if err := c.StartMember(t.Context(), victim); err != nil {
				t.Fatal(err)
			}
			put(tc.entries)
			if c.Leader(t) != leader {
				t.Skip("the leader changed meanwhile, and with it what it knows of its followers")
			}
			if err := c.StopMember(t.Context(), victim); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(c.DataDir(victim)); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(c.DataDir(victim), os.DirFS(old)); err != nil {
				t.Fatal(err)
			}
			if err := c.Launch(victim); err != nil {
				t.Fatal(err)
			}
			wantEnd(t, c, victim, 7, "log went backwards", "kvd member replace")
			if log := logOf(t, c, victim); strings.Contains(log, "goroutine ") {
				t.Error("a stack trace")
			}
			c.Forget(victim) // its end was wanted
		})
	}
}

// A member that is removed stops by itself with 0, as etcd's does, and says what
// happened; started again with its old data it does so again.
func TestRemovedMemberSaysSo(t *testing.T) {
	for _, members := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(members, " members"), func(t *testing.T) {
			c := servertest.Start(t, servertest.Options{Options: local.Options{Members: members, Args: []string{"--unsafe-no-fsync", "--strict-reconfig-check=false"}}})
			victim := (c.Leader(t) + 1) % members
			cli := c.Client(t, c.Endpoint(c.Leader(t)))
			id := status(t, c.Client(t), c.Endpoint(victim)).Header.MemberId
			if _, err := cli.MemberRemove(servertest.Context(t, 30*time.Second), id); err != nil {
				t.Fatal(err)
			}
			wantEnd(t, c, victim, 0, "removed from its cluster", "kvd member add")
			if err := c.Launch(victim); err != nil {
				t.Fatal(err)
			}
			wantEnd(t, c, victim, 0, "removed from its cluster", "kvd member add")
			c.Forget(victim)
		})
	}
}
