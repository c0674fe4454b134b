package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A few rounds in the ordinary tests; the long ones have twenty.
func TestKillUnderLoad(t *testing.T) {
	t.Run("three members", func(t *testing.T) { killUnderLoad(t, killRun{members: 3, rounds: 3, valueBytes: 100}) })
}

func TestKillUnderLoad_more(t *testing.T) {
	t.Run("three members, mutual TLS, large values", func(t *testing.T) {
		killUnderLoad(t, killRun{members: 3, rounds: 1, valueBytes: 20_000, tls: true})
	})
	t.Run("five members, two killed at once", func(t *testing.T) {
		killUnderLoad(t, killRun{members: 5, rounds: 1, valueBytes: 100, atOnce: 2})
	})
}

// killRun is one run of kills under a write load.
type killRun struct {
	members, rounds, valueBytes int
	atOnce                      int // members killed per round; default 1
	tls                         bool
}

// write is a write that the cluster has acknowledged.
type write struct {
	key, value string
	rev        int64
}

// killUnderLoad writes through every endpoint while members are killed with
// SIGKILL in turn, the leader in every other round, and restarted. Afterwards
// every acknowledged write must be on every member, at the revision that was
// acknowledged and with its value.
func killUnderLoad(t *testing.T, run killRun) {
	t.Helper()
	run.atOnce = max(run.atOnce, 1)
	o := servertest.Options{Options: local.Options{Members: run.members}, EqualContent: true}
	if run.tls {
		o.TLS = servertest.NewCerts(t).MutualTLS()
	}
	c := servertest.Start(t, o)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var acked atomic.Int64
	results := make([][]write, 2*run.members)
	var writers sync.WaitGroup
	for w := range results {
		cli := c.Client(t, c.Endpoint(w%run.members))
		writers.Go(func() { results[w] = writeUntil(ctx, cli, w, run.valueBytes, &acked) })
	}

	for round := range run.rounds {
		waitFor(t, &acked, 100) // progress with all members up
		victims := pickVictims(t, c, round, run.atOnce)
		for _, v := range victims {
			c.Kill(v)
			if code, ok := c.ExitCode(v); !ok || code != -1 {
				t.Fatalf("%s ended with %d, so it was not SIGKILL that ended it", c.Name(v), code)
			}
		}
		waitFor(t, &acked, 30) // and with the victims down
		for _, v := range victims {
			if err := c.StartMember(t.Context(), v); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	}
	stop()
	writers.Wait()

	var all []write
	for _, r := range results {
		all = append(all, r...)
	}
	for i := range c.Len() {
		checkWrites(t, c, i, all)
	}
	t.Logf("%d acknowledged writes survived %d rounds", len(all), run.rounds)
}

// pickVictims takes the leader in even rounds, others in turn in odd ones.
func pickVictims(t *testing.T, c *servertest.Cluster, round, n int) []int {
	t.Helper()
	leader := c.Leader(t)
	first := leader
	if round%2 == 1 {
		first = (leader + 1 + round/2%(c.Len()-1)) % c.Len()
	}
	var victims []int
	for k := range n {
		victims = append(victims, (first+k)%c.Len())
	}
	return victims
}

// writeUntil writes new keys and overwrites of its own until ctx ends, and
// returns what was acknowledged. A write without an answer may or may not have
// happened, so its key is never used again.
func writeUntil(ctx context.Context, cli *clientv3.Client, writer, size int, acked *atomic.Int64) []write {
	var done []write
	rng := rand.New(rand.NewPCG(uint64(writer), 1))
	for n := 0; ctx.Err() == nil; n++ {
		w := write{key: fmt.Sprintf("w%d/%06d", writer, n), value: randomText(rng, size)}
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		resp, err := cli.Put(one, w.key, w.value)
		cancel()
		if err != nil {
			continue
		}
		w.rev = resp.Header.Revision
		done = append(done, w)
		acked.Add(1)
	}
	return done
}

func randomText(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return string(b)
}

// waitFor waits until n more writes have been acknowledged.
func waitFor(t *testing.T, acked *atomic.Int64, n int64) {
	t.Helper()
	ctx := servertest.Context(t, 60*time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for from := acked.Load(); acked.Load() < from+n; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d of %d writes in 60 s", acked.Load()-from, n)
		}
	}
}

// checkWrites reads every write from member i's own store.
func checkWrites(t *testing.T, c *servertest.Cluster, i int, all []write) {
	t.Helper()
	ctx := servertest.Context(t, 60*time.Second)
	cli := c.Client(t, c.Endpoint(i))
	if _, err := cli.Get(ctx, "x"); err != nil { // brings the member up to date
		t.Fatalf("%s: %v", c.Name(i), err)
	}
	lost, wrong := 0, 0
	for _, w := range all {
		resp, err := cli.Get(ctx, w.key, clientv3.WithSerializable())
		if err != nil {
			t.Fatalf("%s: %v", c.Name(i), err)
		}
		switch {
		case len(resp.Kvs) == 0:
			lost++
		case string(resp.Kvs[0].Value) != w.value || resp.Kvs[0].ModRevision != w.rev:
			wrong++
		}
	}
	if lost > 0 || wrong > 0 {
		t.Errorf("%s: of %d acknowledged writes %d are lost and %d are not what was written", c.Name(i), len(all), lost, wrong)
	}
}
