package server_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// SIGTERM of the leader hands leadership over before the process ends: another
// member leads while it still drains, no election timeout passes without a
// leader, and it exits 0.
func TestLeaderHandsOver(t *testing.T) {
	leaderHandsOver(t, handover{"three members, an open watch, TLS", 3, true, true})
}

func TestLeaderHandsOver_more(t *testing.T) {
	leaderHandsOver(t, handover{"three members", 3, false, false}, handover{"five members", 5, false, false})
}

type handover struct {
	name    string
	members int
	watch   bool // an open watch, which holds up the draining
	tls     bool
}

func leaderHandsOver(t *testing.T, cases ...handover) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for the watch to be drained
			o := servertest.Options{Options: local.Options{Members: tc.members, Args: []string{"--unsafe-no-fsync"}}, EqualContent: true}
			if tc.tls {
				o.TLS = servertest.NewCerts(t).MutualTLS()
			}
			c := servertest.Start(t, o)
			old := c.Leader(t)
			other := (old + 1) % tc.members
			if tc.watch {
				cli := c.Client(t, c.Endpoint(old))
				w := cli.Watch(clientv3.WithRequireLeader(t.Context()), "x", clientv3.WithCreatedNotify())
				if r := <-w; r.Err() != nil {
					t.Fatal(r.Err())
				}
			}
			cli := c.Client(t, c.Endpoint(other))
			before := status(t, cli, c.Endpoint(other))

			begin := time.Now()
			if err := c.Terminate(old); err != nil {
				t.Fatal(err)
			}
			lost := writeThrough(t, cli, 50)
			after := status(t, cli, c.Endpoint(other))
			changed := time.Since(begin)
			if after.Leader == before.Leader || after.Leader == 0 {
				t.Errorf("leader %x before and %x after", before.Leader, after.Leader)
			}
			if !handedOver(t, c.Cluster, old) {
				t.Error("no member was told to take over: that was an election, not a handover")
			}
			if tc.watch && !c.Running(old) {
				t.Error("the old leader was gone before its watch was drained")
			}
			select {
			case <-c.Exited(old):
			case <-time.After(30 * time.Second):
				t.Fatal("still running 30 s after SIGTERM")
			}
			if code, _ := c.ExitCode(old); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if after2 := status(t, cli, c.Endpoint(other)); after2.RaftTerm != after.RaftTerm {
				t.Errorf("term %d after the handover, %d after the exit: there was another election", after.RaftTerm, after2.RaftTerm)
			}
			t.Logf("new leader and 50 writes within %s, %d tries lost, gone after %s", changed, lost, time.Since(begin))
			if err := c.StartMember(t.Context(), old); err != nil {
				t.Error(err)
			}
		})
	}
}

// writeThrough writes n keys through one member while the leader leaves and
// returns how many tries had no answer. One that arrives at the old leader while
// it hands over is lost, which is raft's way: the leader drops it, and nobody
// tells the member that forwarded it. So each try has a short deadline.
func writeThrough(t *testing.T, cli *clientv3.Client, n int) (lost int) {
	t.Helper()
	begin := time.Now()
	for i := 0; i < n; {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := cli.Put(ctx, fmt.Sprintf("k%d", i), "v")
		cancel()
		switch {
		case err == nil:
			i++
		case time.Since(begin) > 15*time.Second:
			t.Fatalf("no write succeeds %s after SIGTERM: %v", time.Since(begin), err)
		default:
			lost++
		}
	}
	return lost
}

// handedOver says whether raft on some other member logged that the leader told
// it to take over, which happens in a transfer of leadership and nowhere else.
func handedOver(t *testing.T, c *local.Cluster, old int) bool {
	t.Helper()
	for i := range c.Len() {
		raw, err := os.ReadFile(c.LogPath(i))
		if err != nil {
			t.Fatal(err)
		}
		if i != old && strings.Contains(string(raw), "received MsgTimeoutNow") {
			return true
		}
	}
	return false
}

func status(t *testing.T, cli *clientv3.Client, endpoint string) *clientv3.StatusResponse {
	t.Helper()
	st, err := cli.Status(servertest.Context(t, 5*time.Second), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return st
}
