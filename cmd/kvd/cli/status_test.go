package cli

import (
	"testing"

	"kvd/pkg/ops/cluster"
)

// Of a server that does not tell its quota --exit-code cannot say that there is room.
func TestStatusNamesWhoIsNotJudged(t *testing.T) {
	t.Parallel()
	view := cluster.View{Members: []cluster.Member{
		{ID: 1, Name: "new", Status: &cluster.Status{DBSize: 1 << 20, Quota: 2 << 30, QuotaKnown: true}},
		{ID: 2, Name: "old", Status: &cluster.Status{DBSize: 1 << 30}},
	}}
	for _, c := range []struct {
		exitCode bool
		quota    string
		want     string
	}{{true, "", "old (2)"}, {false, "", ""}, {true, "2GiB", ""}} {
		o := statusOptions{exitCode: c.exitCode}
		if c.quota != "" {
			if err := o.quota.Set(c.quota); err != nil {
				t.Fatal(err)
			}
		}
		if got := o.unjudged(o.quota.assume(view)); got != c.want {
			t.Errorf("--exit-code=%t --quota=%q: %q, want %q", c.exitCode, c.quota, got, c.want)
		}
	}
}
