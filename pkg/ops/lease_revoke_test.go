package ops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

func (p *place) planRevoke(t *testing.T, change func(*ops.LeaseRevokeOptions)) (*plan.Plan, error) {
	t.Helper()
	o := ops.DefaultLeaseRevokeOptions()
	o.Rate = 1000
	change(&o)
	return ops.PlanLeaseRevoke(servertest.Context(t, 5*time.Minute), p.KVD, p.view(t), o, progress.Discard)
}

// revoke plans and runs.
func (p *place) revoke(t *testing.T, change func(*ops.LeaseRevokeOptions)) (plan.Report, *ops.LeaseRevokeDetail, error) {
	t.Helper()
	pl, err := p.planRevoke(t, change)
	if err != nil {
		return plan.Report{}, nil, err
	}
	r, err := pl.Run(servertest.Context(t, 5*time.Minute), nil, progress.Discard)
	d, _ := r.Detail.(*ops.LeaseRevokeDetail)
	return r, d, err
}

func withoutKeys(o *ops.LeaseRevokeOptions) { o.WithoutKeys = true }

func ids(all ...clientv3.LeaseID) func(*ops.LeaseRevokeOptions) {
	return func(o *ops.LeaseRevokeOptions) {
		for _, id := range all {
			o.IDs = append(o.IDs, fmt.Sprintf("%x", int64(id)))
		}
	}
}

// grantMany grants so many leases without keys, with many requests at once.
func (p *place) grantMany(t *testing.T, n int, ttl int64) {
	t.Helper()
	ctx := servertest.Context(t, time.Minute)
	each(n, func(int) bool {
		_, err := p.Client.Grant(ctx, ttl)
		if err != nil {
			t.Error(err)
		}
		return err == nil
	})
}

// leaseIDs lists what leases there are.
func (p *place) leaseIDs(t *testing.T) []clientv3.LeaseID {
	t.Helper()
	r, err := p.Client.Leases(servertest.Context(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var out []clientv3.LeaseID
	for _, l := range r.Leases {
		out = append(out, l.ID)
	}
	return out
}

// Leases that nobody uses go while NOSPACE is raised, and only they; their pages are
// free at once, without a compaction; and the same again finds nothing.
func TestLeaseRevokeUnderNospace(t *testing.T) {
	t.Parallel()
	for name, w := range worlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			p.put(t, 1, 1, 10)
			const empty, short = 900, 40
			held := []clientv3.LeaseID{p.grant(t, 3600, "\xffa", "b"), p.grant(t, 60, "/registry/events/ns/e")}
			p.grantMany(t, empty, 7200)
			p.grantMany(t, short, 600)
			p.fill(t, 1<<30, 64<<10)
			if !p.view(t).HasAlarm(cluster.AlarmNoSpace) {
				t.Fatal("no alarm: the case was not built")
			}
			head := p.head(t)
			r, d, err := p.revoke(t, func(o *ops.LeaseRevokeOptions) { o.WithoutKeys, o.GrantedOver = true, 10*time.Minute })
			if err != nil || r.Outcome != plan.OutcomeDone {
				t.Fatalf("%s, %v, %+v", r.Outcome, err, r.Steps)
			}
			if d.Total != empty+short+2 || d.Selected != empty || d.Revoked != empty || d.Shorter != short || d.Kept != 2 || d.KeptKeys != 3 || *d.After != short+2 || *d.Since != 0 {
				t.Errorf("%+v, %d after, %d since", d, *d.After, *d.Since)
			}
			if len(d.Granted) != 1 || d.Granted[0].Granted != 7200 || d.Granted[0].Leases != empty || d.Granted[0].Most > 7200 || d.Granted[0].Least < 7000 {
				t.Errorf("granted %+v", d.Granted)
			}
			if got := p.leaseIDs(t); len(got) != short+2 || !slices.Contains(got, held[0]) || !slices.Contains(got, held[1]) {
				t.Errorf("%d leases are left, want %d and the two with keys", len(got), short)
			}
			if now := p.head(t); now != head {
				t.Errorf("revision %d, was %d: leases without keys leave nothing in the history", now, head)
			}
			// 40 bytes in each record, and some more for its place in the page.
			if s := r.Steps[0]; s.BeforeBytes == nil || s.AfterBytes == nil || *s.BeforeBytes-*s.AfterBytes < 40*empty {
				t.Errorf("in use before %v, after %v: less than %d became free", s.BeforeBytes, s.AfterBytes, 40*empty)
			}
			if r, d, err := p.revoke(t, withoutKeys); err != nil || d.Revoked != short || r.Outcome != plan.OutcomeDone {
				t.Errorf("those of 10 minutes: %+v, %v", d, err)
			}
			if r, _, err := p.revoke(t, withoutKeys); err != nil || r.Outcome != plan.OutcomeNothing {
				t.Errorf("the same again: %s, %v", r.Outcome, err)
			}
			if n := p.count(t, "\xffa"); n != 1 {
				t.Error("a key on a lease is gone")
			}
		})
	}
}

// What has got keys since the plan was made stays, with its keys, and so does what was
// granted since; what has ended by itself is no error.
func TestLeaseRevokeKeepsWhatIsUsedSince(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 64 * mib, keyFmt: "k%d"}.build(t)
	ctx := servertest.Context(t, time.Minute)
	p.grantMany(t, 100, 3600)
	all := p.leaseIDs(t)
	pl, err := p.planRevoke(t, withoutKeys)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range all[:7] {
		if _, err := p.Client.Put(ctx, p.key(i), "v", clientv3.WithLease(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range all[50:55] {
		if _, err := p.Client.Revoke(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	p.grantMany(t, 20, 3600)
	r, err := pl.Run(ctx, nil, progress.Discard)
	d := r.Detail.(*ops.LeaseRevokeDetail)
	if err != nil || r.Outcome != plan.OutcomeDone || d.Revoked != 88 || d.GotKeys != 7 || d.Ended != 5 || *d.After != 27 || *d.Since != 20 {
		t.Errorf("%s, %v, %+v", r.Outcome, err, d)
	}
	if said := r.Steps[0].Reason; !strings.Contains(said, "7 kept, which keys were put on") || !strings.Contains(said, "20 were granted since the plan was made: find the client") {
		t.Errorf("it says %q", said)
	}
	for i := range 7 {
		if p.count(t, p.key(i)) != 1 {
			t.Errorf("key %d is gone", i)
		}
	}
}

// A lease that is named goes with the keys that the plan has shown, and with no other.
func TestLeaseRevokeNamed(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib, keyFmt: "k%d"}.build(t)
	ctx := servertest.Context(t, time.Minute)
	events := make([]string, 12)
	for i := range events {
		events[i] = fmt.Sprintf("/registry/events/shop/web.%02d", i)
	}
	a, b, other := p.grant(t, 3600, events...), p.grant(t, 60, "app/x"), p.grant(t, 60, "app/y")
	master := p.grant(t, 15, "/registry/masterleases/10.0.0.1")

	if _, err := p.planRevoke(t, ids(a, master)); fault.CauseOf(err) != "protected" || !strings.Contains(fault.HintOf(err), "--i-mean-it masterleases") {
		t.Errorf("an API server's own: %v, hint %q", err, fault.HintOf(err))
	}
	pl, err := p.planRevoke(t, ids(a, b, 0x1234, a))
	if err != nil {
		t.Fatal(err)
	}
	shown := pl.Describe()
	d := shown.Detail.(*ops.LeaseRevokeDetail)
	if len(shown.Steps) != 3 || d.Selected != 2 || d.SelectedKeys != 13 || d.Resources[0].Resource != "events" || d.Resources[0].Keys != 12 || len(d.Leases[0].Example) != 5 {
		t.Errorf("%+v, %+v", shown.Steps, d)
	}
	if got := shown.Steps[0].Action; !strings.Contains(got, "deletes 12 keys: events shop/web.00, events shop/web.01") || !strings.Contains(got, "and 7 more") {
		t.Errorf("it says %q", got)
	}
	if s := shown.Steps[2]; s.State != plan.Skipped || !strings.Contains(s.Reason, "if they are decimal it is 4d2") {
		t.Errorf("one that is not there: %+v", s)
	}
	if _, err := p.Client.Put(ctx, "app/since", "v", clientv3.WithLease(b)); err != nil {
		t.Fatal(err)
	}
	r, err := pl.Run(ctx, nil, progress.Discard)
	if fault.KindOf(err) != fault.Partial || fault.CauseOf(err) != "keys_since" || r.Steps[0].State != plan.Done || r.Steps[1].State != plan.Skipped {
		t.Errorf("%v, %+v", err, r.Steps)
	}
	if p.count(t, "/registry/events/") != 0 || p.count(t, "app/") != 3 {
		t.Error("want the events gone, and nothing else")
	}
	if r, _, err := p.revoke(t, ids(a, b)); err != nil || r.Outcome != plan.OutcomeDone || p.count(t, "app/") != 1 {
		t.Errorf("the same again: %s, %v", r.Outcome, err)
	}
	if got := p.leaseIDs(t); !slices.Contains(got, other) || slices.Contains(got, b) {
		t.Errorf("leases %x", got)
	}
}

// Who may not read the keys of leases is told so before anything is sent, and who may
// not write those of the one that is named, when it is revoked.
func TestLeaseRevokeDenied(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib, keyFmt: "k%d"}.build(t)
	id := p.grant(t, 600, "/b/x")
	p.grantMany(t, 3, 600)
	p.EnableAuth(t, servertest.User{Name: "alice", Password: "pw", Prefix: "/a/"})
	client, err := cluster.Connect(cluster.Config{Endpoints: p.Endpoints(), User: "alice", Password: "pw"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	p.KVD = client
	for name, which := range map[string]func(*ops.LeaseRevokeOptions){"all": withoutKeys, "one": ids(id)} {
		if r, _, err := p.revoke(t, which); fault.KindOf(err) != fault.Denied {
			t.Errorf("%s: %s, %v", name, r.Outcome, err)
		}
	}
}

func TestLeaseRevokeCheck(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*ops.LeaseRevokeOptions){
		"nothing":          func(*ops.LeaseRevokeOptions) {},
		"both":             func(o *ops.LeaseRevokeOptions) { o.WithoutKeys, o.IDs = true, []string{"1f"} },
		"no ID":            func(o *ops.LeaseRevokeOptions) { o.IDs = []string{"lease"} },
		"zero":             func(o *ops.LeaseRevokeOptions) { o.IDs = []string{"0"} },
		"named, and a TTL": func(o *ops.LeaseRevokeOptions) { o.IDs, o.GrantedOver = []string{"1f"}, time.Hour },
		"negative":         func(o *ops.LeaseRevokeOptions) { o.WithoutKeys, o.GrantedOver = true, -1 },
		"too fast":         func(o *ops.LeaseRevokeOptions) { o.WithoutKeys, o.Rate = true, 1001 },
		"not at all":       func(o *ops.LeaseRevokeOptions) { o.WithoutKeys, o.Rate = true, 0 },
	} {
		o := ops.DefaultLeaseRevokeOptions()
		change(&o)
		if err := o.Check(); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}
