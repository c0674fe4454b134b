package k8s_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/server/local"
)

// What each scenario says that it sends is what it sends, no less (see declared) and no
// more: an objective on what never comes would be found out after the run only. Time is
// a hundred times as fast, so that five seconds have all that there is in eight minutes.
func TestFiguresAreWhatIsSent_more(t *testing.T) {
	c := newStage(t, local.Options{})
	for name, sc := range declaring() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := c.options()
			o.TimeScale, o.Duration, o.Prefix = 100, 5*time.Second, loadgen.Root+strings.ReplaceAll(name, " ", "-")
			run := c.play(t, sc, o)
			for _, s := range sc.Figures().Requests {
				// Which of the two an API server reads by depends on the members' version.
				either := []string{s.RPC}
				if s.RPC == "range" || s.RPC == "range_stream" {
					either = []string{"range", "range_stream"}
				}
				if s.Only == "" && run.Count(func(op result.Op) bool { return op.Resource == s.Resource && slices.Contains(either, op.RPC) }) == 0 {
					t.Errorf("%s says that it sends %s %s, and has sent none", sc.Name(), s.RPC, s.Resource)
				}
			}
		})
	}
}

// declaring are all scenarios, each as often as its flags have it send something else.
func declaring() map[string]loadgen.Scenario {
	const nodes = 5
	status := &k8s.Heartbeats{HeartbeatOptions: k8s.DefaultHeartbeatOptions()}
	status.Nodes, status.Images, status.Mode = nodes, 0, k8s.ModeStatus
	lease := &k8s.Heartbeats{HeartbeatOptions: status.HeartbeatOptions}
	lease.Mode = k8s.ModeLease
	list := func(set func(*k8s.ListOptions)) loadgen.Scenario {
		l := &k8s.List{ListOptions: k8s.DefaultListOptions()}
		l.Objects, l.Clients, l.Period, l.Nodes = 50, 2, 30*time.Second, nodes
		set(&l.ListOptions)
		return l
	}
	endpoints := func(mode string) loadgen.Scenario {
		e := &k8s.Endpoints{EndpointOptions: k8s.DefaultEndpointOptions()}
		e.EndpointOptions.Endpoints, e.Mode, e.PodRate, e.Nodes = 10, mode, 0.1, nodes
		return e
	}
	events := &k8s.Events{EventOptions: k8s.DefaultEventOptions()}
	events.Rate, events.Sources, events.Nodes = 0.3, 3, 0
	objects := &k8s.Objects{ObjectOptions: k8s.DefaultObjectOptions()}
	objects.Size, objects.Rate, objects.Foreground = 1000, 0.1, status.HeartbeatOptions
	watch := &k8s.Watch{WatchOptions: k8s.DefaultWatchOptions()}
	watch.Informers, watch.Slow, watch.SlowRate, watch.Objects, watch.Rate, watch.Nodes = 3, 1, 1<<20, 50, 0.3, nodes
	pods := &k8s.Pods{PodOptions: k8s.DefaultPodOptions()}
	pods.Rate, pods.Nodes = 0.05, nodes
	relist := func(stream bool) loadgen.Scenario {
		r := &k8s.Relist{RelistOptions: k8s.DefaultRelistOptions()}
		r.Objects, r.Kinds, r.Period, r.Stream, r.Nodes = 50, 4, 100*time.Second, stream, 0
		return r
	}
	whole := &k8s.Cluster{ClusterOptions: k8s.DefaultClusterOptions()}
	whole.Nodes, whole.PodsPerNode, whole.PodRate, whole.Kinds = nodes, 2, 0.1, 8
	return map[string]loadgen.Scenario{
		"lease": lease, "status": status, "events": events, "objects": objects, "watch": watch, "pods": pods, "cluster": whole,
		"list": list(func(*k8s.ListOptions) {}), "streamed list": list(func(o *k8s.ListOptions) { o.Stream = true }),
		"cached list": list(func(o *k8s.ListOptions) { o.FromCache, o.Nodes = true, 0 }),
		"endpoints":   endpoints(k8s.ModeEndpoints), "slices": endpoints(k8s.ModeSlices), "relist": relist(false), "streamed relist": relist(true),
	}
}
