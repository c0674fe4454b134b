package keyspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/lease"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/keyspace"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

func listOf(t *testing.T, src keyspace.Source, o keyspace.ListOptions) ([]keyspace.Entry, keyspace.Listed) {
	t.Helper()
	o.Describer.Layout, o.Codec = describer().Layout, describer().Codec
	var all []keyspace.Entry
	sum, err := keyspace.List(t.Context(), src, o, func(e *keyspace.Entry) error {
		all = append(all, *e)
		return nil
	})
	if err != nil || sum.Keys != int64(len(all)) {
		t.Fatalf("%d entries, %+v, %v", len(all), sum, err)
	}
	return all, sum
}

// TestListOfARealRegistry: every value is decoded, no deleted key is counted, and
// each filter finds what the key list of the registry has.
func TestListOfARealRegistry(t *testing.T) {
	t.Parallel()
	src := openRegistry(t)
	all, _ := listOf(t, src, keyspace.ListOptions{Values: true})
	if len(all) != 573 {
		t.Errorf("%d keys, want 573", len(all))
	}
	for _, e := range all {
		object := e.Value.Object
		meta, _ := object["metadata"].(map[string]any)
		if object == nil || e.Value.Kind == "" || e.Value.Note != "" || e.Resource == "" {
			t.Errorf("%s: %+v", e.Key, e.Value)
		}
		if meta["resourceVersion"] != fmt.Sprint(e.ModRevision) {
			t.Errorf("%s: resourceVersion %v, last written at %d", e.Key, meta["resourceVersion"], e.ModRevision)
		}
		if text, err := json.Marshal(e); err != nil || e.Resource == "secrets" && !strings.Contains(string(text), "(masked, 64 bytes)") {
			t.Errorf("%s: %s, %v", e.Key, text, err)
		}
	}
	for what, tc := range map[string]struct {
		filter keyspace.Filter
		want   int
	}{
		"resource":               {keyspace.Filter{Selection: keyspace.Selection{Resources: []string{"pods"}}}, 43},
		"resource and namespace": {keyspace.Filter{Selection: keyspace.Selection{Resources: []string{"deployments.apps"}, Namespaces: []string{"team-1"}}}, 1},
		"custom resource":        {keyspace.Filter{Selection: keyspace.Selection{Resources: []string{"widgets.example.invalid"}}}, 6},
		"kind":                   {keyspace.Filter{Kind: "event"}, 137},
		"kind of a CRD":          {keyspace.Filter{Kind: "CustomResourceDefinition"}, 1},
		"prefix":                 {keyspace.Filter{Selection: keyspace.Selection{Prefix: "/registry/services/endpoints/"}}, 8},
		"size":                   {keyspace.Filter{MinBytes: 60 << 10}, 1},
		"size and kind":          {keyspace.Filter{MinBytes: 60 << 10, MaxBytes: 70 << 10, Kind: "ConfigMap"}, 1},
		"nothing":                {keyspace.Filter{MinBytes: 1 << 20}, 0},
	} {
		if got, _ := listOf(t, src, keyspace.ListOptions{Filter: tc.filter}); len(got) != tc.want {
			t.Errorf("%s: %d keys, want %d", what, len(got), tc.want)
		}
	}
	onLease := map[string]int{}
	for _, e := range all {
		if e.Lease != "" {
			onLease[e.Lease]++
		}
	}
	if len(onLease) == 0 {
		t.Error("no key is on a lease")
	}
	for id, want := range onLease {
		var lease int64
		if _, err := fmt.Sscanf(id, "%x", &lease); err != nil {
			t.Fatal(err)
		}
		if got, _ := listOf(t, src, keyspace.ListOptions{Filter: keyspace.Filter{Lease: lease}, Values: true}); len(got) != want {
			t.Errorf("lease %s: %d keys, want %d", id, len(got), want)
		}
	}
	if got, sum := listOf(t, src, keyspace.ListOptions{Limit: 7}); len(got) != 7 || !sum.More {
		t.Errorf("%d keys, %+v", len(got), sum)
	}
	if got, sum := listOf(t, src, keyspace.ListOptions{Limit: 573}); len(got) != 573 || sum.More {
		t.Errorf("%d keys, %+v", len(got), sum)
	}
	// The Deployment was not there at 436, and had 20 replicas at 940.
	one := keyspace.Filter{Selection: keyspace.Selection{Prefix: "/registry/deployments/team-0/web"}}
	if got, _ := listOf(t, src, keyspace.ListOptions{Filter: one, Rev: 436}); len(got) != 0 {
		t.Errorf("at 436: %+v", got)
	}
	got, _ := listOf(t, src, keyspace.ListOptions{Filter: one, Rev: 940, Values: true})
	if spec, _ := got[0].Value.Object["spec"].(map[string]any); fmt.Sprint(spec["replicas"]) != "20" {
		t.Errorf("at 940: %v", spec["replicas"])
	}
}

// TestListOfOddValues: none of them ends the list, and each is named.
func TestListOfOddValues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	kv, done := store(t, path)
	values := map[string]string{ // and what is said of each
		"compact_rev_key":                        "1189",
		"/registry/secrets/a/plain":              "hunter2",
		"/registry/secrets/a/enc":                "k8s:enc:aescbc:v1:key1:\x00\xff",
		"/registry/configmaps/a/kms":             "k8s:enc:kms:v2:vault:\x00\xff",
		"/registry/pods/a/cut":                   "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x7f\x0a",
		"/my/prefix/secrets/a/s":                 "hunter2",
		"/openshift.io/routes/a/r":               "k8s\x00\x0a\x1e\x0a\x15route.openshift.io/v1\x12\x05Route\x12\x05\x0a\x03\x0a\x01r",
		"/my/prefix/pods/a/p":                    `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}`,
		"/registry/example.com/widgets/a/broken": `{"kind":"Widget"`,
		"bin\xff\x00":                            "\xff\x00\x01",
		"json":                                   `{"host":"db"}`,
		"empty":                                  "",
	}
	for key, value := range values {
		kv.Put([]byte(key), []byte(value), lease.NoLease)
	}
	kv.Put([]byte("gone"), []byte("x"), lease.NoLease)
	kv.DeleteRange([]byte("gone"), nil)
	kv.Commit()
	done()
	src := openFile(t, path)
	all, _ := listOf(t, src, keyspace.ListOptions{Values: true})
	if len(all) != len(values) {
		t.Errorf("%d keys, want %d", len(all), len(values))
	}
	for _, e := range all {
		text, err := json.Marshal(e)
		if err != nil || strings.Contains(string(text), "hunter2") {
			t.Errorf("%s %v", text, err)
		}
		for key, want := range map[string]string{
			"compact_rev_key":                        `"value":{"form":"bytes","text":"1189"}`,
			"/registry/secrets/a/plain":              `"note":"not shown: it is stored among Secrets","masked":true`,
			"/registry/secrets/a/enc":                `"note":"encrypted at rest (aescbc, key1); not shown: it is stored among Secrets","masked":true`,
			"/registry/configmaps/a/kms":             `"encryption":{"provider":"kms","version":"v2","key":"vault"},"bytes_base64":`,
			"/registry/pods/a/cut":                   `"kind":"Pod","damaged":true`,
			"/openshift.io/routes/a/r":               `"api_version":"route.openshift.io/v1","kind":"Route","object":{"apiVersion":"route.openshift.io/v1","kind":"Route","metadata":{`,
			"/registry/example.com/widgets/a/broken": `"note":"not valid JSON: unexpected EOF"`,
			"bin\xff\x00":                            `{"key_base64":"Ymlu/wA=",`,
			"json":                                   `"object":{"host":"db"}`,
			"empty":                                  `"value_bytes":0,"value":{"form":"bytes","text":""}`,
		} {
			if string(e.Key) == key && !strings.Contains(string(text), want) {
				t.Errorf("%q:\n%s\nlacks %s", key, text, want)
			}
		}
	}
	if _, sum := listOf(t, src, keyspace.ListOptions{Filter: keyspace.Filter{Kind: "Secret"}}); sum.Unsure != 2 || sum.Keys != 0 {
		t.Errorf("%+v", sum)
	}
}

// TestListLive reads a cluster as it reads the file of its member, values by the
// page and one by one.
func TestListLive(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli := c.Client(t)
	grant, err := cli.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 300 {
		var o []clientv3.OpOption
		if n%50 == 0 {
			o = append(o, clientv3.WithLease(grant.ID))
		}
		key := fmt.Sprintf("/registry/configmaps/ns-%d/c%03d", n%3, n)
		value := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"a":%q}}`, strings.Repeat("x", n))
		if _, err := cli.Put(t.Context(), key, value, o...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cli.Delete(t.Context(), "/registry/configmaps/ns-0/c000"); err != nil {
		t.Fatal(err)
	}
	live := keyspace.OpenLive(connect(t, c, 0), keyspace.LiveOptions{})
	cases := map[string]struct {
		o    keyspace.ListOptions
		want int
	}{
		"all":           {keyspace.ListOptions{}, 299},
		"values":        {keyspace.ListOptions{Values: true}, 299},
		"a namespace":   {keyspace.ListOptions{Filter: keyspace.Filter{Selection: keyspace.Selection{Namespaces: []string{"ns-1"}}}, Values: true}, 100},
		"a lease":       {keyspace.ListOptions{Filter: keyspace.Filter{Lease: int64(grant.ID)}, Values: true}, 5},
		"large":         {keyspace.ListOptions{Filter: keyspace.Filter{MinBytes: 300}}, 78},
		"the past":      {keyspace.ListOptions{Rev: 101, Values: true}, 100},
		"and a limit":   {keyspace.ListOptions{Rev: 101, Limit: 3}, 3},
		"lease, names":  {keyspace.ListOptions{Filter: keyspace.Filter{Lease: int64(grant.ID)}}, 5},
		"a kind, cased": {keyspace.ListOptions{Filter: keyspace.Filter{Kind: "configmap"}, Values: true}, 299},
	}
	asked := map[string][]keyspace.Entry{}
	for what, tc := range cases {
		asked[what], _ = listOf(t, live, tc.o)
	}
	// A server writes its own records some seconds after its start, on its own.
	if err := c.Terminate(0); err != nil {
		t.Fatal(err)
	}
	<-c.Exited(0)
	file := openFile(t, c.DataDir(0))
	for what, tc := range cases {
		a := asked[what]
		b, _ := listOf(t, file, tc.o)
		for i := range a {
			if a[i].Unread {
				b[i].Lease, b[i].Unread = "", true
			}
		}
		one, err1 := json.Marshal(a)
		two, err2 := json.Marshal(b)
		if string(one) != string(two) || err1 != nil || err2 != nil {
			t.Errorf("%s: live and file differ:\n%.300s\n%.300s", what, one, two)
		}
		if len(a) != tc.want {
			t.Errorf("%s: %d keys, want %d", what, len(a), tc.want)
		}
	}
}

// countedSource counts the walks over a source.
type countedSource struct {
	keyspace.Source
	walks int
}

func (s *countedSource) Keys(ctx context.Context, q keyspace.Query, fn func(*keyspace.Item) error) error {
	s.walks++
	return s.Source.Keys(ctx, q, fn)
}

// TestAFileIsListedInOneWalk: objects may be in many places, each of them in a range
// of its own, and a walk over a file reads all of it.
func TestAFileIsListedInOneWalk(t *testing.T) {
	t.Parallel()
	src := &countedSource{Source: openRegistry(t)}
	for _, sel := range []keyspace.Selection{{Resources: []string{"pods"}}, {Resources: []string{"widgets.example.invalid", "deployments.apps"}},
		{Resources: []string{"pods", "deployments.apps"}, Namespaces: []string{"team-1", "team-0"}}, {Namespaces: []string{"kube-system"}}, {}} {
		var want []keyspace.Entry
		all, _ := listOf(t, src, keyspace.ListOptions{Filter: keyspace.Filter{MinBytes: 1}})
		for _, e := range all {
			if (len(sel.Resources) == 0 || slices.Contains(sel.Resources, e.Resource) || slices.Contains(sel.Resources, e.Resource+".apps")) &&
				(len(sel.Namespaces) == 0 || slices.Contains(sel.Namespaces, e.Namespace)) {
				want = append(want, e)
			}
		}
		src.walks = 0
		got, _ := listOf(t, src, keyspace.ListOptions{Filter: keyspace.Filter{Selection: sel, MinBytes: 1}})
		if len(got) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d keys, want %d", sel, len(got), len(want))
		}
		if src.walks != 1 {
			t.Errorf("%s: read %d times", sel, src.walks)
		}
	}
}
