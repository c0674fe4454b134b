package ops_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/revclock"
	"kvd/pkg/server/servertest"
)

func (p *place) planDelete(t *testing.T, s ops.DeleteSelection, more ...func(*ops.DeleteOptions)) (*plan.Plan, error) {
	t.Helper()
	o := ops.DeleteOptions{Select: s, Layout: keys.Default()}
	for _, f := range more {
		f(&o)
	}
	return ops.PlanDelete(servertest.Context(t, time.Minute), p.KVD, p.view(t), o, progress.Discard)
}

// delete plans and runs.
func (p *place) delete(t *testing.T, s ops.DeleteSelection, more ...func(*ops.DeleteOptions)) (plan.Report, error) {
	t.Helper()
	pl, err := p.planDelete(t, s, more...)
	if err != nil {
		return plan.Report{}, err
	}
	return pl.Run(servertest.Context(t, 5*time.Minute), nil, progress.Discard)
}

func prefixed(prefix string) ops.DeleteSelection {
	return ops.DeleteSelection{Selection: keyspace.Selection{Prefix: prefix}}
}

func meaning(names ...string) func(*ops.DeleteOptions) {
	return func(o *ops.DeleteOptions) { o.MeanIt = names }
}

// Case C03, to its end: live data fills the quota; the rescue stops and names the
// command; it deletes under NOSPACE; the rescue then succeeds. make test-long does the
// same in other worlds.
func TestDeleteUnderNospace(t *testing.T) {
	t.Parallel()
	worlds()["1 member"].deleteUnderNospace(t, "/registry/wgpolicyk8s.io/policyreports/")
}

func (w world) deleteUnderNospace(t *testing.T, prefix string) {
	t.Helper()
	w.keyFmt = prefix + "ns-%d/report"
	p := w.build(t)
	ctx := servertest.Context(t, time.Minute)
	p.put(t, 1, 1, 100) // so that the view knows the head
	for _, key := range []string{"/registry/pods/default/p", "/registry/secrets/default/s"} {
		if _, err := p.Client.Put(ctx, key, "small"); err != nil {
			t.Fatal(err)
		}
	}
	p.fill(t, 1<<30, 8192)
	n := p.count(t, prefix)
	p.compact(t, p.head(t))
	p.defragAll(t)

	_, err := p.rescue(t)
	if hint := fault.HintOf(err); fault.CauseOf(err) != "live_data" || !strings.Contains(hint, "kvd keys delete --") {
		t.Fatalf("%v, hint %q: want live_data, and the command", err, hint)
	}
	r, err := p.delete(t, prefixed(prefix))
	if err != nil || r.Outcome != plan.OutcomeDone {
		t.Fatalf("outcome %s, %v: %+v", r.Outcome, err, r.Steps)
	}
	d, ok := r.Detail.(ops.DeleteDetail)
	if !ok || d.Keys != int64(n) || len(d.Groups) != 1 || math.Abs(float64(d.Bytes)/float64(n)-8192) > 200 {
		t.Errorf("%d keys of 8 KiB, planned were %+v", n, d)
	}
	if left := p.count(t, prefix); left != 0 {
		t.Errorf("%d of %d are left", left, n)
	}
	if p.count(t, "/registry/") != 2 {
		t.Error("something else is gone")
	}
	if r, err := p.rescue(t); err != nil || r.Outcome != plan.OutcomeDone {
		t.Fatalf("after the deletion: outcome %s, %v", r.Outcome, err)
	}
	p.writable(t)
}

// keep writes something that no test deletes.
func (p *place) keep(t *testing.T) {
	t.Helper()
	if _, err := p.Client.Put(servertest.Context(t, time.Minute), "/registry/pods/default/kept", "v"); err != nil {
		t.Fatal(err)
	}
}

// known says that a revision is old enough.
func known(rev int64) func(time.Time) revclock.Answer {
	return func(time.Time) revclock.Answer { return revclock.Answer{Rev: rev, Known: true} }
}

// What is written after the plan was made stays, be it a change of a key that was to
// go or a new one; what went by itself is no error.
func TestDeleteKeepsWhatWasWrittenSince(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib, keyFmt: "/registry/events/a/e%05d"}.build(t)
	p.put(t, 500, 500, 100)
	p.keep(t)
	pl, err := p.planDelete(t, ops.DeleteSelection{Selection: keyspace.Selection{Resources: []string{"events"}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := servertest.Context(t, time.Minute)
	for _, i := range []int{0, 17, 499} {
		if _, err := p.Client.Put(ctx, p.key(i), "again"); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{3, 18} {
		if _, err := p.Client.Delete(ctx, p.key(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Client.Put(ctx, p.key(1000), "new"); err != nil {
		t.Fatal(err)
	}
	r, err := pl.Run(ctx, nil, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	left, err := p.Client.Get(ctx, "/registry/events/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kv := range left.Kvs {
		got = append(got, string(kv.Key))
	}
	if want := []string{p.key(0), p.key(17), p.key(499), p.key(1000)}; !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
	if said := r.Steps[0].Reason; !strings.HasPrefix(said, "495 keys deleted in ") || !strings.Contains(said, "4 kept, written since") {
		t.Errorf("it says %q", said)
	}
}

// The answer to a batch that is refused tells which key has changed in the moment
// between reading and deleting: that one is kept, the rest goes.
func TestDeleteRacesWithWriters(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib, keyFmt: "/registry/events/a/e%05d"}.build(t)
	const n = 2000
	p.put(t, n, n, 50)
	p.keep(t)
	pl, err := p.planDelete(t, prefixed("/registry/events/"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(servertest.Context(t, time.Minute))
	written := make(chan map[string]bool)
	go func() {
		mine := map[string]bool{}
		for i := 0; ctx.Err() == nil; i = (i + 7) % n {
			// Only what is there: what the test counts is keys that were kept.
			r, err := p.Client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(p.key(i)), ">", 0)).Then(clientv3.OpPut(p.key(i), "mine")).Commit()
			if err == nil && r.Succeeded {
				mine[p.key(i)] = true
			}
		}
		written <- mine
	}()
	r, err := pl.Run(servertest.Context(t, time.Minute), nil, progress.Discard)
	stop()
	mine := <-written
	if err != nil || r.Outcome != plan.OutcomeDone {
		t.Fatalf("%s, %v", r.Outcome, err)
	}
	left, err := p.Client.Get(servertest.Context(t, time.Minute), "/registry/events/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range left.Kvs {
		if string(kv.Value) != "mine" {
			t.Errorf("%s is left as it was", kv.Key)
		}
		delete(mine, string(kv.Key))
	}
	if len(mine) > 0 || len(left.Kvs) == 0 {
		t.Errorf("%d keys are kept, %d that were written are gone: %v", len(left.Kvs), len(mine), mine)
	}
}

// What is protected is refused before anything is sent, unless it is named.
func TestDeleteRefuses(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib}.build(t)
	ctx := servertest.Context(t, time.Minute)
	for _, key := range []string{"/registry/secrets/a/s", "/registry/configmaps/a/c", "/registry/namespaces/a", "/registry/configmaps/kube-system/c",
		"/registry/events/kube-system/e", "/own/prefix/namespaces/default", "/own/prefix/secrets/a/s", "/own/prefix/pods/a/p", "app/x", "app/y"} {
		if _, err := p.Client.Put(ctx, key, "v"); err != nil {
			t.Fatal(err)
		}
	}
	space := func(names ...string) ops.DeleteSelection {
		return ops.DeleteSelection{Selection: keyspace.Selection{Namespaces: names}}
	}
	kind := func(names ...string) ops.DeleteSelection {
		return ops.DeleteSelection{Selection: keyspace.Selection{Resources: names}}
	}
	for _, tc := range []struct {
		sel   ops.DeleteSelection
		mean  []string
		cause string
		says  string
	}{
		{prefixed(""), nil, "no_selection", "everything"},
		{prefixed("/registry/"), nil, "whole_registry", "/registry/"},
		{prefixed("/registry/"), []string{"secrets", "namespaces", "namespace/kube-system"}, "whole_registry", ""},
		{kind("secrets"), nil, "protected", "secrets"},
		{kind("secrets"), []string{"secret"}, "protected", "secrets"},
		{space("a"), nil, "protected", "secrets (1 key)"},
		{space("kube-system"), nil, "protected", "namespace/kube-system"},
		{kind("configmaps"), nil, "protected", "namespace/kube-system (1 key)"},
		{prefixed("/own/"), nil, "whole_registry", "/own/prefix/"},
		{prefixed("/own/prefix/"), nil, "whole_registry", "/own/prefix/"},
		{prefixed("/own/prefix/s"), nil, "protected", "secrets (1 key)"},
		{kind("events"), nil, "", ""},
		{space("a"), []string{"secrets"}, "", ""},
		{prefixed("/own/prefix/pods/"), nil, "", ""},
		{prefixed("app/"), nil, "", ""},
	} {
		pl, err := p.planDelete(t, tc.sel, meaning(tc.mean...))
		if fault.CauseOf(err) != tc.cause || (err != nil && !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s %v: %v, want %q", tc.sel, tc.mean, err, tc.cause)
		}
		if tc.cause == "" && (pl == nil || !pl.Pending()) {
			t.Errorf("%s %v: nothing to do", tc.sel, tc.mean)
		}
	}
	for _, key := range []string{"/registry/", "/own/"} {
		if _, err := p.Client.Delete(ctx, key, clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.planDelete(t, prefixed("app/")); fault.CauseOf(err) != "protected" || !strings.Contains(fault.HintOf(err), "every-key") {
		t.Errorf("a prefix that all keys have: %v", err)
	}
	if r, err := p.delete(t, prefixed("app/"), meaning("every-key")); err != nil || r.Outcome != plan.OutcomeDone {
		t.Errorf("%s, %v", r.Outcome, err)
	}
}

// A server that takes smaller transactions gets smaller ones.
func TestDeleteWithinTheServersLimits(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"10 operations": {"--max-txn-ops=10"}, "1 operation": {"--max-txn-ops=1"}, "32 KiB": {"--max-request-bytes=32768"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := world{members: 1, quota: 64 * mib, keyFmt: "/registry/events/" + strings.Repeat("n", 900) + "/e%05d"}.build(t, args...)
			p.put(t, 300, 300, 10)
			p.put(t, 1, 1, 10)
			if r, err := p.delete(t, prefixed("/registry/events/"), meaning("every-key")); err != nil || r.Outcome != plan.OutcomeDone {
				t.Fatalf("%s, %v", r.Outcome, err)
			}
			if left := p.count(t, "/registry/"); left != 0 {
				t.Errorf("%d are left", left)
			}
		})
	}
}

// Age is that of the object, and for other keys what was sampled.
func TestDeleteOlderThan(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib}.build(t)
	ctx := servertest.Context(t, time.Minute)
	put := func(key, value string) int64 {
		r, err := p.Client.Put(ctx, key, value)
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
	report := func(age time.Duration) string {
		return fmt.Sprintf(`{"apiVersion":"x.io/v1","kind":"Report","metadata":{"name":"r","creationTimestamp":%q}}`, time.Now().Add(-age).UTC().Format(time.RFC3339))
	}
	put("/registry/x.io/reports/a/old", report(3*time.Hour))
	put("/registry/x.io/reports/a/young", report(time.Minute))
	put("/registry/x.io/reports/a/cipher", "k8s:enc:aescbc:v1:key1:xxxxxxxx")
	sampled := put("/registry/x.io/reports/a/plain-old", "17")
	put("/registry/x.io/reports/a/plain-young", "17")

	sel := prefixed("/registry/x.io/")
	sel.OlderThan = time.Hour
	pl, err := p.planDelete(t, sel, meaning("every-key"))
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := pl.Detail.(ops.DeleteDetail); d.Keys != 1 || d.Younger != 1 || d.Ageless != 3 || d.BytesErr != 0 {
		t.Errorf("%+v", d)
	}
	r, err := p.delete(t, sel, func(o *ops.DeleteOptions) { o.Known = known(sampled) })
	if err != nil || r.Outcome != plan.OutcomeDone {
		t.Fatalf("%s, %v", r.Outcome, err)
	}
	left, err := p.Client.Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Kvs) != 2 || !strings.HasSuffix(string(left.Kvs[0].Key), "/plain-young") || !strings.HasSuffix(string(left.Kvs[1].Key), "/young") {
		t.Errorf("left are %v", left.Kvs)
	}
}

// A stop ends a deletion between two batches; the next run deletes what is left.
func TestDeleteStopped(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib, keyFmt: "/registry/events/a/e%05d"}.build(t)
	p.put(t, 2000, 2000, 10)
	stop, once := make(chan struct{}), false
	o := ops.DeleteOptions{Select: prefixed("/registry/events/"), Layout: keys.Default(), MeanIt: []string{"every-key"}}
	pl, err := ops.PlanDelete(servertest.Context(t, time.Minute), p.KVD, p.view(t), o, progress.Func(func(e progress.Event) {
		if e.Phase == "deleting" && e.Done > 100 && !once {
			once = true
			close(stop)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := pl.Run(servertest.Context(t, time.Minute), stop, progress.Discard)
	if fault.KindOf(err) != fault.Interrupted || r.Outcome != plan.OutcomeInterrupted || !strings.Contains(r.Steps[0].Reason, "keys deleted in") {
		t.Errorf("%s, %v: %+v", r.Outcome, err, r.Steps)
	}
	left := p.count(t, "/registry/events/")
	if left == 0 || left > 1900 {
		t.Errorf("%d are left", left)
	}
	r, err = p.delete(t, prefixed("/registry/events/"), meaning("every-key"))
	if d, _ := r.Detail.(ops.DeleteDetail); err != nil || d.Keys != int64(left) || p.count(t, "/registry/events/") != 0 {
		t.Errorf("the second run: %v, %d keys, %d are left", err, d.Keys, p.count(t, "/registry/events/"))
	}
}

// A CORRUPT alarm forbids deletions, which etcd would refuse.
func TestDeleteUnderCorrupt(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib, keyFmt: "/registry/events/a/e%d"}.build(t)
	p.put(t, 3, 3, 10)
	p.plant(t, p.view(t).Members[0].ID, 2)
	if _, err := p.planDelete(t, prefixed("/registry/events/")); fault.CauseOf(err) != cluster.CauseCorrupt || fault.KindOf(err) != fault.Refused {
		t.Errorf("%v", err)
	}
}
