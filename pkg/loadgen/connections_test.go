package loadgen

import (
	"slices"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// To which members API servers connect, by policy and by what is to be avoided.
func TestPolicyEndpoints(t *testing.T) {
	v := cluster.View{Leader: 1}
	for i, name := range []string{"m1", "m2", "m3"} {
		v.Members = append(v.Members, cluster.Member{ID: uint64(i) + 1, Name: name, Endpoint: "at-" + name, Status: &cluster.Status{}})
	}
	for name, tc := range map[string]struct {
		policy Policy
		avoid  []string
		want   []string
	}{
		"spread":            {Spread, nil, []string{"at-m1", "at-m2", "at-m3", "at-m1"}},
		"all but one":       {Spread, []string{"m2"}, []string{"at-m1", "at-m3", "at-m1", "at-m3"}},
		"followers but one": {Followers, []string{"m2"}, []string{"at-m3", "at-m3", "at-m3", "at-m3"}},
		"the leader":        {Leader, []string{"m2"}, []string{"at-m1", "at-m1", "at-m1", "at-m1"}},
	} {
		if got, err := tc.policy.endpoints(v, 4, tc.avoid); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tc.want)
		}
	}
	if got, err := Spread.endpoints(v, 4, []string{"m2", "m9"}); fault.KindOf(err) != fault.Usage {
		t.Errorf("nobody is called m9: %v, %v", got, err)
	}
	if got, err := Leader.endpoints(v, 4, []string{"m1"}); err == nil {
		t.Errorf("the leader is to be avoided, and the only one to connect to: %v", got)
	}
}
