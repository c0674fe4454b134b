package ops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// The plan tells what a selection takes that may not be meant, and what may have been.
func TestDeleteTellsNames(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib}.build(t)
	ctx := servertest.Context(t, time.Minute)
	for _, key := range []string{"/registry/pods/team-1-a/p", "/registry/pods/team-1/p", "/registry/pods/team-1/q", "/registry/pods/team-10/p", "/registry/secrets/a/s", "app/x", "app/xy",
		"/registry/controllers/a/c", "lone"} {
		if _, err := p.Client.Put(ctx, key, "v"); err != nil {
			t.Fatal(err)
		}
	}
	kind := func(name string) ops.DeleteSelection {
		return ops.DeleteSelection{Selection: keyspace.Selection{Resources: []string{name}}}
	}
	for _, tc := range []struct {
		sel  ops.DeleteSelection
		want string
		not  string
	}{
		{prefixed("/registry/pods/team-1"), `"team-1-a/", "team-1/", "team-10/"; one alone is meant by a slash`, ""},
		{prefixed("/registry/pods/team-1"), "in 3 namespaces: team-1 (2 keys), team-1-a (1 key), team-10 (1 key)", ""},
		{prefixed("/registry/pods/team-10"), "in 1 namespace: team-10 (1 key)", "ends within"},
		{prefixed("/registry/pods/team-1/"), "in 1 namespace: team-1 (2 keys)", "ends within"},
		{prefixed("/registry/pods/team"), `"team-1-a/"`, ""},
		{prefixed("app/x"), "is a key, and takes 1 key besides", ""},
		{prefixed("app/xy"), "", "besides"},
		{prefixed("lo"), "", "ends within"},
		{kind("secret"), "--resource secrets has 1 key", ""},
		{kind("Pods"), "--resource pods has 4 keys", ""},
		{kind("controllers"), "--resource replicationcontrollers has 1 key", ""},
		{kind("leases"), "", "is named"},
	} {
		pl, err := p.planDelete(t, tc.sel)
		if err != nil {
			t.Errorf("%s: %v", tc.sel, err)
			continue
		}
		if notes := strings.Join(pl.Notes, "\n"); !strings.Contains(notes, tc.want) || (tc.not != "" && strings.Contains(notes, tc.not)) {
			t.Errorf("%s: %s\nwant %q in it, and not %q", tc.sel, notes, tc.want, tc.not)
		}
	}
	pl, err := p.planDelete(t, prefixed("/registry/pods/team-1"))
	if err != nil {
		t.Fatal(err)
	}
	d, ok := pl.Detail.(ops.DeleteDetail)
	if want := []ops.DeleteNamespace{{Name: "team-1", Keys: 2}, {Name: "team-1-a", Keys: 1}, {Name: "team-10", Keys: 1}}; !ok || !slices.Equal(d.Namespaces, want) {
		t.Errorf("%+v", d.Namespaces)
	}
}

// A compaction that overtakes the look at the keys makes it begin again, at a later
// revision.
func TestDeletePlansAcrossACompaction(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib}.build(t)
	ctx := servertest.Context(t, time.Minute)
	p.keep(t)
	for i := range 50 {
		var puts []clientv3.Op
		for j := range 120 {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("/registry/events/a/e%d-%d", i, j), "v"))
		}
		if _, err := p.Client.Txn(ctx).Then(puts...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	var compacted int64
	sink := progress.Func(func(e progress.Event) {
		if e.Phase != "looking at the keys" || compacted > 0 {
			return
		}
		r, err := p.Client.Put(ctx, "/registry/events/a/late", "v")
		if err == nil {
			compacted = r.Header.Revision
			_, err = p.Client.Compact(ctx, compacted)
		}
		if err != nil {
			t.Error(err)
		}
	})
	o := ops.DeleteOptions{Select: prefixed("/registry/events/"), Layout: keys.Default()}
	pl, err := ops.PlanDelete(ctx, p.KVD, p.view(t), o, sink)
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := pl.Detail.(ops.DeleteDetail); !ok || compacted == 0 || d.Revision < compacted || d.Keys != 6001 {
		t.Errorf("compacted to %d: revision %d, %d keys", compacted, d.Revision, d.Keys)
	}
}
