//go:build long

package ops_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Without a leader a put waits for one, seven seconds, unless its client asks not to.
func TestExplainedWriteWithoutALeader(t *testing.T) {
	t.Parallel()
	for members, kill := range map[int]int{3: 2, 5: 3} {
		t.Run(fmt.Sprintf("%d of %d gone", kill, members), func(t *testing.T) {
			t.Parallel()
			p := world{members: members, quota: 16 * mib, keyFmt: "k%d"}.build(t)
			p.KVD = p.patient(t)
			last := p.Endpoint(members - 1)
			w := writer{client: p.Cluster.Client(t, last)}
			holds(t, p.KVD, p.writeTo("k", 10, last), w, "")
			for i := range kill {
				p.Kill(i)
			}
			waitFor(t, "the others to know of no leader", func() bool { return p.view(t).Leader == 0 })
			began := time.Now()
			holds(t, p.KVD, p.writeTo("k", 10, last), w, "propose")
			if took := time.Since(began); took < 5*time.Second {
				t.Errorf("the real write was given up after %v, want the servers' seven seconds", took)
			}
			o := p.writeTo("k", 2000, last)
			o.RequireLeader = true
			holds(t, p.KVD, o, writer{client: p.once(t, last)}, "require_leader")
		})
	}
}

// A learner refuses puts, whatever else would have stopped them.
func TestExplainedWriteToALearner(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"plain": false, "mTLS auth": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := world{members: 1, quota: 16 * mib, secure: secure, keyFmt: "k%d"}.build(t)
			p.KVD = p.patient(t)
			i, err := p.Reserve()
			if err != nil {
				t.Fatal(err)
			}
			ctx := servertest.Context(t, time.Minute)
			if _, err := p.Client.MemberAddAsLearner(ctx, []string{p.PeerURL(i)}); err != nil {
				t.Fatal(err)
			}
			if err := p.StartMember(ctx, i); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the learner to answer", func() bool { return len(p.view(t).Answered()) == 2 })
			plain := writer{client: p.ClientAs(t, "", "", p.Endpoint(i))} // a learner lets nobody log in
			for _, size := range []int64{1, 3000} {
				holds(t, p.KVD, p.writeTo("k", size, p.Name(i)), plain, "learner")
			}
			// A client that has been given the learner alone, and kvd beside it.
			cfg := patience([]string{p.Endpoint(i)})
			if c := p.TLS(); c != nil {
				cfg.CACert, cfg.Cert, cfg.Key = c.CA, c.ClientCert, c.ClientKey
			}
			only, err := cluster.Connect(cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { only.Close() })
			holds(t, only, p.writeTo("k", 1, ""), plain, "learner")
			_, err = ops.ExplainWrite(ctx, only, p.writeTo("k", 1, p.Name(i)))
			if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "names can't be read") {
				t.Errorf("by a name that the learner does not tell: %v", err)
			}
			if r := explained(t, p, p.writeTo("k", 1, "")); len(r.Members) != 1 || r.Verdict != ops.WriteAccepted {
				t.Errorf("without --member: %d members judged, %s; want the voter alone, accepted", len(r.Members), r.Verdict)
			}
		})
	}
}

// A member whose quota is smaller takes the write and closes the door behind it:
// the client of another member is told nothing.
func TestExplainedLastWrite(t *testing.T) {
	t.Parallel()
	for _, quota := range []int64{400_000, 700_000} {
		t.Run(fmt.Sprint(quota), func(t *testing.T) {
			t.Parallel()
			p := &place{world: world{members: 3, quota: 64 * mib, keyFmt: "k%d"}, Cluster: servertest.Start(t, servertest.Options{Options: local.Options{
				Members: 3, Args: []string{"--unsafe-no-fsync", "--quota-backend-bytes=67108864"}, MemberArgs: func(i int) []string {
					if i == 2 {
						return []string{fmt.Sprintf("--quota-backend-bytes=%d", quota)}
					}
					return nil
				}}})}
			p.Client, p.KVD = p.Cluster.Client(t), p.patient(t)
			first := writer{client: p.Cluster.Client(t, p.Endpoint(0))}
			o := p.writeTo("k", quota, p.Name(0))
			r := holds(t, p.KVD, o, first, "")
			if n := numbers(r, "quota_at_apply")["members_without_room"]; n != 1 || !r.RaisesNoSpace {
				t.Errorf("%d members without room, want 1", n)
			}
			waitFor(t, "the alarm of the member without room", func() bool { return p.view(t).HasAlarm(cluster.AlarmNoSpace) })
			holds(t, p.KVD, p.writeTo("k", 1, p.Name(0)), first, "nospace_alarm")
			o = p.writeTo("k", quota, "")
			if r := explained(t, p, o); r.Members[2].StopsAt != "quota" || r.Members[0].StopsAt != "nospace_alarm" {
				t.Errorf("at m3 %s, at m1 %s; want quota and nospace_alarm", r.Members[2].StopsAt, r.Members[0].StopsAt)
			}
		})
	}
}

// A member that commits and can't apply: one transaction sorts the key space by
// value again and again while thousands of puts are committed behind it.
func TestExplainedWriteBehindTheApplyGap(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]world{
		"1 member":             {members: 1, quota: 512 * mib, keyFmt: "k%06d"},
		"3 members, at leader": {members: 3, quota: 512 * mib, keyFmt: "/registry/pods/default/p%06d"},
		"mTLS auth bin keys":   {members: 1, quota: 512 * mib, secure: true, keyFmt: "\xff\x00%06d"},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: each needs the machine
			p := w.build(t, "--max-txn-ops=100000")
			p.KVD = p.patient(t)
			at := p.Leader(t)
			p.put(t, 20_000, 20_000, 50)
			put := writer{client: p.Cluster.Client(t, p.Endpoint(at))}
			holds(t, p.KVD, p.writeTo("k", 10, p.Name(at)), put, "")

			once := p.once(t, p.Endpoint(at)) // logs in now: later that would wait for the member to catch up

			ctx, cancel := context.WithCancel(t.Context())
			var busy sync.WaitGroup
			defer busy.Wait()
			defer cancel()
			p.stallUntilBehind(t, ctx, &busy, put.client, p.Endpoint(at))
			r := holds(t, p.KVD, p.writeTo("k", 10, p.Name(at)), writer{client: once}, "apply_gap")
			if n := numbers(r, "apply_gap"); n["gap_entries"] <= 5000 || n["committed_index"]-n["applied_index"] != n["gap_entries"] {
				t.Errorf("gap: %v", n)
			}
		})
	}
}

// stallUntilBehind keeps a member from applying for fifteen seconds or so, and
// floods it, until more than 5000 entries wait; again where that was too short.
func (p *place) stallUntilBehind(t *testing.T, ctx context.Context, busy *sync.WaitGroup, c *clientv3.Client, endpoint string) {
	t.Helper()
	everything := []clientv3.OpOption{clientv3.WithFromKey(), clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend), clientv3.WithLimit(1)}
	for range 5 {
		began := time.Now()
		if _, err := c.Get(ctx, "\x00", append(everything, clientv3.WithSerializable())...); err != nil {
			t.Fatal(err)
		}
		ops := []clientv3.Op{clientv3.OpPut("stall", "")}
		for range int(15*time.Second/time.Since(began)) + 1 {
			ops = append(ops, clientv3.OpGet("\x00", everything...))
		}
		ended := make(chan struct{})
		busy.Go(func() {
			defer close(ended)
			_, _ = c.Txn(ctx).Then(ops...).Commit()
		})
		for range 16 { // 512 puts under way at each, none of which waits for its answer
			busy.Go(func() { flood(ctx, ended, c) })
		}
		tick := time.NewTicker(50 * time.Millisecond)
		for over := false; !over; {
			select {
			case <-ended:
				over = true
			case <-tick.C:
			}
			if s, err := c.Status(ctx, endpoint); err == nil && s.RaftIndex > s.RaftAppliedIndex+5000 {
				tick.Stop()
				return
			}
		}
		tick.Stop()
	}
	t.Fatal("never were more than 5000 entries committed and not applied")
}

// flood begins puts and gives each up after a moment, which does not take it
// back, until the server takes no more or until is closed.
func flood(ctx context.Context, until <-chan struct{}, c *clientv3.Client) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var under sync.WaitGroup
	defer under.Wait()
	slots := make(chan struct{}, 512)
	for {
		select {
		case <-until:
			return
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		under.Go(func() {
			defer func() { <-slots }()
			one, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := c.Put(one, "flood", "ffffffffff")
			if err != nil && strings.Contains(err.Error(), "too many requests") {
				stop()
			}
		})
	}
}

// A follower goes on naming a leader that has just died; a write then waits in
// vain for it.
func TestExplainedWriteAfterTheLeaderDied(t *testing.T) {
	t.Parallel()
	for _, election := range []time.Duration{8 * time.Second, 12 * time.Second} {
		t.Run(election.String(), func(t *testing.T) {
			t.Parallel()
			w := world{members: 3, quota: 16 * mib, keyFmt: "k%d"}
			p := w.build(t, fmt.Sprintf("--election-timeout=%d", election.Milliseconds()), "--heartbeat-interval=500")
			leader := p.Leader(t)
			follower := (leader + 1) % 3
			cfg := patience([]string{p.Endpoint(follower)})
			cfg.DialTimeout, cfg.MemberTimeout = 500*time.Millisecond, 500*time.Millisecond
			kvd, err := cluster.Connect(cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { kvd.Close() })
			put := writer{client: p.once(t, p.Endpoint(follower)), wait: time.Minute}
			holds(t, p.KVD, p.writeTo("k", 10, p.Name(follower)), put, "")
			if err := p.Pause(leader); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.Resume(leader) })
			o := p.writeTo("k", 10, p.Name(follower))
			r := explained(t, &place{KVD: kvd}, o)
			if r.Verdict != ops.WriteUnknown || !strings.Contains(r.Why, "the leader "+p.Name(leader)) {
				t.Errorf("%s at %q: %s", r.Verdict, r.StopsAt, r.Why)
			}
			if err := put.put(t, o); err == nil || !strings.Contains(err.Error(), "timed out") {
				t.Errorf("the real write: %v, want it timed out", err)
			}
		})
	}
}

// Without a quorum nobody logs in: what is known then is from the metrics of the
// members that are there, each with what is wrong with it alone.
func TestExplainedWriteOfAUserWithoutAQuorum(t *testing.T) {
	t.Parallel()
	for _, members := range []int{3, 5} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			p := &place{world: world{members: members}, Cluster: servertest.Start(t, servertest.Options{Options: local.Options{
				Members: members, Args: []string{"--unsafe-no-fsync"}}})}
			p.EnableAuth(t, servertest.User{Name: "bob", Password: "pw", Prefix: "/l"})
			for i := 1; i < members; i++ {
				if err := p.Pause(i); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = p.Resume(i) })
			}
			var r ops.WriteReport
			waitFor(t, "the last member to know no leader", func() bool {
				r = explained(t, &place{KVD: p.connectAs(t, "bob:pw")}, p.writeTo("/l", 1, ""))
				return r.StopsAt == "propose"
			})
			if !r.AtTheLatest || len(r.Members) != members {
				t.Errorf("at the latest: %t, %d members", r.AtTheLatest, len(r.Members))
			}
			for i, m := range r.Members {
				if strings.Contains(m.Why, "\n") || m.Endpoint != p.Endpoint(i) || m.ID == "0" || i > 0 && m.Verdict != ops.WriteUnreachable {
					t.Errorf("member %d: %+v", i, m)
				}
			}
			if n, there := numbers(r, "propose")["voters"]; there {
				t.Errorf("%d voters, of a list of members that nobody told", n)
			}
			for _, s := range r.Sent {
				if strings.Contains(s.What, "as the writer") {
					t.Errorf("sent %d × %s, and bob could not log in", s.Count, s.What)
				}
			}
		})
	}
}
