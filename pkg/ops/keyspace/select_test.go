package keyspace

import (
	"slices"
	"testing"

	"kvd/pkg/ops/kube/keys"
)

func TestSelector(t *testing.T) {
	all := []string{"/registry/configmaps/a/x", "/registry/configmaps/b/x", "/registry/events/a/e", "/registry/namespaces/a",
		"/registry/nodes.x.io/things/a/t", "/registry/pods/a/p", "/registry/pods/ab/p", "/registry/podtemplates/a/p",
		"/registry/services/endpoints/a/s", "/registry/services/specs/a/s", "\xff\xff/k", "compact_rev_key"}
	for _, tc := range []struct {
		sel  Selection
		want []int
	}{
		{Selection{}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{Selection{Prefix: "/registry/pod"}, []int{5, 6, 7}},
		{Selection{Prefix: "\xff"}, []int{10}},
		{Selection{Resources: []string{"pods"}}, []int{5, 6}},
		{Selection{Resources: []string{"pods", "events", "pods"}}, []int{2, 5, 6}},
		{Selection{Resources: []string{"services"}}, []int{9}},
		{Selection{Resources: []string{"things.nodes.x.io"}}, []int{4}},
		{Selection{Namespaces: []string{"a"}}, []int{0, 2, 4, 5, 7, 8, 9}},
		{Selection{Namespaces: []string{"b", "ab"}}, []int{1, 6}},
		{Selection{Resources: []string{"pods"}, Namespaces: []string{"a"}}, []int{5}},
		{Selection{Namespaces: []string{"a"}, Prefix: "/registry/pods/"}, []int{5}},
		{Selection{Resources: []string{"pods"}, Prefix: "/registry/pods/ab"}, []int{6}},
		{Selection{Resources: []string{"pods"}, Prefix: "/registry/events/"}, nil},
	} {
		if err := tc.sel.Check("test"); err != nil {
			t.Fatal(err)
		}
		s := tc.sel.Selector(keys.Default())
		var got []int
		for _, r := range s.Ranges() {
			for i, key := range all {
				if key >= r.From && (r.End == "" || key < r.End) && s.Has(key) {
					if slices.Contains(got, i) {
						t.Errorf("%v: %q is in two ranges", tc.sel, key)
					}
					got = append(got, i)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%v selects %v, want %v", tc.sel, got, tc.want)
		}
	}
	for _, bad := range []Selection{{Resources: []string{"/registry/pods"}}, {Namespaces: []string{"a/b"}}, {Namespaces: []string{""}}} {
		if bad.Check("test") == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
