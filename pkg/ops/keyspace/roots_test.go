package keyspace_test

import (
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// Clusters of Kubernetes below prefixes that nobody has told are found where a member's
// names are listed, and named where values are read as they come. What only looks like
// one, as an application's /shop/orders/, is none.
func TestRootsNobodyHasTold(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{})
	cli := c.Client(t)
	for _, key := range []string{"/a/pods/ns/p", "/a/pods/ns/q", "/a/namespaces/default", "/many/tenants/namespaces/kube-system", "/many/tenants/pods/ns/r",
		"/shop/orders/eu/1", "/shop/namespaces/eu", "/registry/pods/ns/s", "plain"} {
		if _, err := cli.Put(t.Context(), key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	var notes []string
	s := keyspace.OpenLive(connect(t, c, 0), keyspace.LiveOptions{Op: "keys usage", Sink: progress.Func(func(e progress.Event) {
		if e.Warning {
			notes = append(notes, e.Note)
		}
	})})
	o := keyspace.DefaultBreakdownOptions()
	o.By = keyspace.ByResource
	counts := func(o keyspace.BreakdownOptions) map[string]int64 {
		t.Helper()
		b, err := keyspace.BreakdownMember(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int64{}
		for _, p := range b.Groups {
			out[string(p.Name)] = p.Keys
		}
		return out
	}
	// /many/tenants/ is a root of two segments; /shop/namespaces/eu is no cluster's.
	if got := counts(o); got["pods"] != 4 || got["namespaces"] != 2 || got[string(keyspace.GroupNoObject)] != 3 || len(notes) != 0 {
		t.Errorf("sampled: %v, %q", got, notes)
	}
	o.Exact = true
	if got := counts(o); got["pods"] != 1 || len(notes) != 1 || !strings.HasSuffix(notes[0], "--kube-prefix /a,/many/tenants") {
		t.Errorf("every value: %v, %q", got, notes)
	}
	o.Layout = o.Layout.With("/a,/many/tenants")
	if got := counts(o); got["pods"] != 4 || got[string(keyspace.GroupNoObject)] != 3 || len(notes) != 1 {
		t.Errorf("every value, told: %v, %q", got, notes)
	}
}

// What was read is not lost where it cannot be read again with the prefixes that were found.
func TestRootsFoundAndNobodyToReadThemFrom(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{})
	cli := c.Client(t)
	for _, key := range []string{"/a/pods/ns/p", "/a/namespaces/default"} {
		if _, err := cli.Put(t.Context(), key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	o := keyspace.DefaultLookOptions()
	o.Timeout = 2 * time.Second
	warned := false
	u, err := keyspace.Look(t.Context(), connect(t, c, 0), o, progress.Func(func(e progress.Event) {
		warned = warned || e.Warning
		if strings.Contains(e.Note, "beginning again with that") {
			c.Kill(0)
		}
	}))
	if err != nil || u.Keys != 2 || !warned {
		t.Errorf("%v, %d keys, warned: %v", err, u.Keys, warned)
	}
}
