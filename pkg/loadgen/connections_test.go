package loadgen

import (
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

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

// Whoever stops a load that opens more connections than it should have asked for need
// not wait for the last of them.
func TestConnectionsStopBeingOpened(t *testing.T) {
	stop := make(chan struct{})
	dialled := 0
	c := &connections{apiservers: 1, endpoints: []string{"http://127.0.0.1:1"}, open: map[connKey]*clientv3.Client{}, dial: func(ep string) (*clientv3.Client, error) {
		if dialled++; dialled == 3 {
			close(stop)
		}
		return clientv3.New(clientv3.Config{Endpoints: []string{ep}, Logger: zap.NewNop()})
	}}
	defer c.close()
	if err := c.complete(100, stop); fault.KindOf(err) != fault.Interrupted || dialled != 3 {
		t.Errorf("%v, after %d of 100 connections", err, dialled)
	}
}

// A load of more connections than a machine has local ports is refused before the first.
func TestMostConnections(t *testing.T) {
	for _, c := range []struct {
		servers, resources int
		ok                 bool
	}{{3, 75, true}, {3, 2000, true}, {3, 100_000, false}, {100_000, 0, false}, {20_000, 1, true}} {
		o := DefaultOptions()
		o.APIServers, o.Resources = c.servers, c.resources
		if err := o.Check(); (err == nil) != c.ok || err != nil && fault.KindOf(err) != fault.Usage {
			t.Errorf("%d API servers of %d connections: %v", c.servers, c.resources, err)
		}
	}
}
