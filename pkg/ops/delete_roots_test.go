package ops_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/plan"
	"kvd/pkg/server/servertest"
)

// A cluster of Kubernetes whose --etcd-prefix nobody told is recognised wherever it
// lies: below a known one, below one that was told too short, or without a slash.
// Its protected things are, and it is never deleted as a whole.
func TestDeleteFindsRoots(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib}.build(t)
	ctx := servertest.Context(t, time.Minute)
	put := func(names ...string) {
		var ops []clientv3.Op
		for _, key := range names {
			ops = append(ops, clientv3.OpPut(key, "v"))
		}
		if _, err := p.Client.Txn(ctx).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	for _, root := range []string{"/registry/cluster1", "/my/prefix", "tenant/registry", "/my/nested/one"} {
		put(root+"/namespaces/default", root+"/namespaces/kube-system", root+"/secrets/a/s1", root+"/secrets/a/s2", root+"/clusterroles/admin",
			root+"/deployments/a/d", root+"/minions/n", root+"/pods/a/p")
	}
	// Names as a cluster's, and no cluster; and what parses as nothing.
	put("/app/users/1", "/app/secrets/a/b", "/registry/secrets/a/b/c", "/registry/clusterroles/ns/x", "/registry/pods/a/p")
	// A cluster whose namespaces are gone is seen by what it has stored.
	for key, value := range map[string]string{"/lost/secrets/a/s": "k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Secret", "/lost/plain": "v",
		"/registry/lost/secrets/a/s": "k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Secret", "/cipher/x": "k8s:enc:aescbc:v1:key1:xx"} {
		if _, err := p.Client.Put(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	under := func(prefix string) func(*ops.DeleteOptions) {
		return func(o *ops.DeleteOptions) { o.Layout = keys.Default().With(prefix) }
	}
	kind := func(name string) ops.DeleteSelection {
		return ops.DeleteSelection{Selection: keyspace.Selection{Resources: []string{name}}}
	}
	for _, tc := range []struct {
		sel   ops.DeleteSelection
		root  string // told
		mean  string
		cause string
		says  string // all of these, by a blank
	}{
		{prefixed("/registry/cluster1"), "", "", "whole_registry", "/registry/cluster1/"},
		{prefixed("/registry/cluster1"), "", "namespaces", "whole_registry", ""},
		{prefixed("/registry/cluster1/"), "", "", "whole_registry", ""},
		{prefixed("/registry/cl"), "", "", "whole_registry", ""},
		{prefixed("/registry/cluster1/s"), "", "", "protected", "secrets"},
		{prefixed("/registry/cluster1/secrets/a/s1"), "", "", "protected", "secrets"},
		{kind("cluster1"), "", "", "protected", "namespaces nodes clusterroles"},
		{ops.DeleteSelection{Selection: keyspace.Selection{Resources: []string{"cluster1"}, Namespaces: []string{"clusterroles"}}}, "", "", "protected", "clusterroles"},
		{prefixed("/my/prefix"), "/my", "", "whole_registry", ""},
		{prefixed("/my/pre"), "/my", "", "whole_registry", "/my/prefix/"},
		{kind("prefix"), "/my", "namespaces", "protected", "nodes clusterroles"},
		{prefixed("/m"), "", "namespaces", "whole_registry", ""},
		{prefixed("/my/"), "", "namespaces", "whole_registry", ""},
		{prefixed("/my/prefix/d"), "", "", "protected", "deployments"},
		{prefixed("/my/nested/one/sec"), "/my", "", "protected", "secrets"},
		{prefixed("tenant/"), "", "", "whole_registry", "tenant/registry/"},
		{prefixed("tenant/registry/secrets/a/"), "", "", "protected", "secrets"},
		{prefixed("/registry/secrets/a/"), "", "", "protected", "secrets"},
		{prefixed("/registry/clusterroles/ns/"), "", "", "protected", "clusterroles"},
		{prefixed("/lost/"), "", "", "protected", "stray-objects"},
		{prefixed("/lost/"), "", "stray-objects", "", ""},
		{prefixed("/lost/secrets/"), "/lost", "", "protected", "secrets"},
		{prefixed("/registry/lost/"), "", "", "protected", "stray-objects"},
		{prefixed("/lost/plain"), "", "", "", ""},
		{prefixed("/cipher/"), "", "", "protected", "stray-objects"},
		{prefixed("/app/"), "", "", "", ""},
		{prefixed("/my/prefix/pods/"), "", "", "", ""},
		{prefixed("/registry/cluster1/pods/"), "", "", "", ""},
	} {
		if tc.root == "" {
			tc.root = "/registry"
		}
		_, err := p.planDelete(t, tc.sel, under(tc.root), meaning(tc.mean))
		if fault.CauseOf(err) != tc.cause {
			t.Errorf("%s %v: %v, want %q", tc.sel, tc.mean, err, tc.cause)
			continue
		}
		for _, word := range strings.Fields(tc.says) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v: want %q in it", tc.sel, err, word)
			}
		}
	}
	// Each kind is a step of its own there too.
	r, err := p.delete(t, prefixed("/registry/cluster1/s"), meaning("secrets"))
	if err != nil || len(r.Steps) != 1 || r.Steps[0].Subject != "secrets" || r.Steps[0].State != plan.Done {
		t.Errorf("%v: %+v", err, r.Steps)
	}
	if n := p.count(t, "/registry/cluster1/"); n != 6 {
		t.Errorf("%d keys are left, want 6", n)
	}
	var notes string
	if pl, err := p.planDelete(t, prefixed("/my/prefix/pods/")); err == nil {
		notes = strings.Join(pl.Notes, "; ")
	}
	if !strings.Contains(notes, "finalizers") {
		t.Errorf("notes: %s", notes)
	}
}

// What names make kvd suspect is asked for in few requests, however many there are,
// and in smaller ones where the server takes no larger.
func TestDeleteAsksForManyRootsAtOnce(t *testing.T) {
	t.Parallel()
	for most, tc := range map[string]struct {
		tenants  int
		requests float64
	}{"128": {1000, 300}, "1": {3, 60}} { // most of them for the sizes of a sample
		p := world{members: 1, quota: 64 * mib}.build(t, "--max-txn-ops="+most)
		ctx := servertest.Context(t, time.Minute)
		each(tc.tenants, func(i int) bool {
			_, err := p.Client.Put(ctx, fmt.Sprintf("t/%d/users/1", i), "v")
			return err == nil
		})
		if _, err := p.Client.Put(ctx, "t/2/namespaces/default", "v"); err != nil {
			t.Fatal(err)
		}
		requests := func() (n float64) {
			s, err := metrics.Fetch(ctx, p.KVD.HTTPClient(), p.Endpoint(0))
			if err != nil {
				t.Fatal(err)
			}
			for _, method := range []string{"Range", "Txn"} {
				v, _ := s.Value(metrics.RPCHandled, metrics.Labels{"grpc_method": method})
				n += v
			}
			return n
		}
		before := requests()
		_, err := p.planDelete(t, prefixed("t/"))
		if fault.CauseOf(err) != "whole_registry" || !strings.Contains(err.Error(), "(t/2/)") {
			t.Errorf("%s operations: the root t/2 was not found: %v", most, err)
		}
		if n := requests() - before; n > tc.requests {
			t.Errorf("%s operations: %g requests", most, n)
		}
	}
}
