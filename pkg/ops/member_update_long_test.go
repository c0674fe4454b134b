//go:build long

package ops_test

import (
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// update changes the peer URL of a member to that of another that was reserved for it.
func update(t *testing.T, p *place, name, url string, timeout time.Duration) (plan.Report, error) {
	t.Helper()
	o := ops.DefaultUpdateOptions()
	o.Member, o.PeerURLs, o.Timeout = name, []string{url}, timeout
	pl, err := ops.PlanMemberUpdate(p.KVD, p.view(t), o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return pl.Run(servertest.Context(t, 2*time.Minute), nil, progress.Discard)
}

// A machine has got another address while its etcd was down: the cluster is told, the
// member is started there, and it is the leader that says that it reaches it. Whether
// the member was the leader makes no difference.
func TestUpdateOfAMemberThatMoved(t *testing.T) {
	for _, tc := range []struct {
		name    string
		leads   bool
		secure  bool
		version string
	}{{name: "a follower"}, {name: "the leader", leads: true}, {name: "mTLS and auth", secure: true}, {name: "3.4", version: "3.4"}, {name: "3.5", version: "3.5", leads: true}, {name: "3.6", version: "3.6"}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := world{members: 3, quota: 16 * mib, secure: tc.secure, keyFmt: "k%d"}
			if tc.version != "" {
				w.server = servertest.OldServer(t, tc.version)
			}
			p := w.build(t)
			ctx := servertest.Context(t, 3*time.Minute)
			moved := p.Leader(t)
			if !tc.leads {
				moved = (moved + 1) % 3
			}
			id := p.view(t).Members[moved].ID
			spare, err := p.Reserve()
			if err != nil {
				t.Fatal(err)
			}
			url := p.PeerURL(spare)
			p.Forget(spare)
			if err := p.StopMember(ctx, moved); err != nil {
				t.Fatal(err)
			}
			restarted := make(chan error, 1)
			go func() {
				time.Sleep(3 * time.Second) // somebody sees to it
				restarted <- p.StartMember(ctx, moved, "--listen-peer-urls="+url)
			}()
			r, err := update(t, p, p.Name(moved), url, time.Minute)
			if err := <-restarted; err != nil {
				t.Fatal(err)
			}
			if err != nil || r.Outcome != plan.OutcomeDone {
				t.Fatalf("%+v, %v", r, err)
			}
			if how := r.Steps[1].Reason; !strings.Contains(how, "reaches it at "+url) {
				t.Errorf("known by %q", how)
			}
			m, ok := p.view(t).MemberByID(id)
			if !ok || len(m.PeerURLs) != 1 || m.PeerURLs[0] != url {
				t.Errorf("in the list: %+v", m)
			}
			p.CheckEqualContent(t)

			r, err = update(t, p, p.Name(moved), url, time.Minute)
			if err != nil || r.Steps[0].State != plan.Skipped {
				t.Errorf("once more: %+v, %v", r.Steps, err)
			}
		})
	}
}

// A URL at which nobody listens is found out, although the member answers its clients
// and applies what is written: it has opened the streams that it gets that by itself.
func TestUpdateToAWrongURL(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	moved := (p.Leader(t) + 1) % 3
	spare, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	wrong, right := p.PeerURL(spare), p.PeerURL(moved)
	p.Forget(spare)
	r, err := update(t, p, p.Name(moved), wrong, 12*time.Second)
	if fault.CauseOf(err) != "not_reached" || !strings.Contains(fault.Why(err), "has not reached an etcd at "+wrong) {
		t.Errorf("%+v, %v", r.Steps, err)
	}
	if _, err := p.Cluster.Client(t, p.Endpoint(moved)).Put(servertest.Context(t, 10*time.Second), "k", "v"); err != nil {
		t.Errorf("a write through it: %v", err)
	}
	if r, err := update(t, p, p.Name(moved), right, time.Minute); err != nil || r.Outcome != plan.OutcomeDone {
		t.Errorf("put right: %+v, %v", r.Steps, err)
	}
}

// Any etcd answers a probe, and a member that was reached once is probed on: neither is
// taken for the member's being there.
func TestUpdateWhereAnotherEtcdAnswers(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	other := servertest.Start(t, servertest.Options{})
	ctx := servertest.Context(t, 2*time.Minute)
	moved, next := (p.Leader(t)+1)%3, (p.Leader(t)+2)%3
	spare, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	right, free := p.PeerURL(moved), p.PeerURL(spare)
	p.Forget(spare)
	for _, tc := range []struct{ url, lacks string }{
		{strings.Replace(p.PeerURL(next), "127.0.0.1", "localhost", 1), " leads to " + p.Name(next)},
		{other.PeerURL(0), "a member of another cluster"},
	} {
		if r, err := update(t, p, p.Name(moved), tc.url, 12*time.Second); fault.CauseOf(err) != "not_reached" || !strings.Contains(fault.Why(err), tc.lacks) {
			t.Errorf("%s: %+v, %v", tc.url, r.Steps, err)
		}
	}
	if r, err := update(t, p, p.Name(moved), right, time.Minute); err != nil || r.Outcome != plan.OutcomeDone {
		t.Fatalf("put right: %+v, %v", r.Steps, err)
	}
	if err := p.StopMember(ctx, moved); err != nil {
		t.Fatal(err)
	}
	if err := p.StartMember(ctx, moved, "--listen-peer-urls="+free); err != nil {
		t.Fatal(err)
	}
	r, err := update(t, p, p.Name(moved), right, 12*time.Second)
	if fault.CauseOf(err) != "not_reached" || r.Steps[0].State != plan.Skipped {
		t.Errorf("listens elsewhere: %+v, %v", r.Steps, err)
	}
}
