package loadgen

import (
	"context"
	"errors"
	"fmt"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
)

// Arm is one of two variants that are set against each other.
type Arm struct {
	Name     string
	Scenario func() Scenario // a fresh one for each run
	Options  Options
	Members  int   // of each throwaway cluster
	Quota    int64 // of each member, in bytes; 0: etcd's own
}

// ABOptions is where and how often both are run.
type ABOptions struct {
	Repeats int           // of each arm
	Command local.Command // what the members run; default: this program's serve
}

// abSpare is how many runs that tell of the generator, and not of the servers, are
// played once more before the comparison is given up: on a machine with both, one turn
// that was late is no rare thing.
const abSpare = 3

// AB runs two arms in turns, ABBA and so on, so that what changes slowly on the
// machine meets both alike; each run on a fresh cluster on this machine, so that
// none finds what another left. It returns the runs of both, in order. A run that tells
// of the generator alone is played once more, abSpare of them in all. stop
// ends the run under way and what would follow, which is an error of kind
// Interrupted by what the run says of itself; other errors end it too.
func AB(ctx context.Context, arms [2]Arm, o ABOptions, stop <-chan struct{}, sink progress.Sink) (runs [2][]*result.Run, err error) {
	spare := abSpare
	for i := 0; i < 2*o.Repeats; {
		which := abba(i)
		arm := arms[which]
		sink.Event(progress.Event{Op: "loadgen", Phase: fmt.Sprintf("run %d of %d: %s", i+1, 2*o.Repeats, arm.Name)})
		run, err := runOnFresh(ctx, arm, o, stop, sink)
		byHand := run != nil && run.Totals.Stopped == result.StoppedByHand
		if err == nil && !byHand {
			err = result.Err(run, nil) // one that says nothing spoils the comparison: better now than after the last
		}
		if fault.KindOf(err) == fault.Inconclusive && spare > 0 {
			spare--
			sink.Event(progress.Event{Op: "loadgen", Warning: true, Note: fmt.Sprintf("run %d of %d is played once more: %s", i+1, 2*o.Repeats, fault.Why(err))})
			continue
		}
		if run != nil {
			run.Variant = arm.Name
			runs[which] = append(runs[which], run)
		}
		if err != nil || byHand {
			return runs, err
		}
		i++
	}
	return runs, nil
}

// abba says which arm the i-th run is of: 0, 1, 1, 0, and again.
func abba(i int) int {
	pair := i / 2
	return (i + pair) % 2
}

// runOnFresh starts a cluster, runs an arm on it, and removes it.
func runOnFresh(ctx context.Context, arm Arm, o ABOptions, stop <-chan struct{}, sink progress.Sink) (run *result.Run, err error) {
	servers, err := local.Start(ctx, local.Options{Members: arm.Members, QuotaBytes: arm.Quota, Command: o.Command})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	client, err := cluster.Connect(cluster.Config{Endpoints: servers.Endpoints(), Source: "a throwaway cluster"})
	if err != nil {
		return nil, err
	}
	defer client.Close() //nolint:errcheck // the members are gone next
	opts := arm.Options
	opts.MetricsURLs = metrics.Overrides{}
	for i := range servers.Len() {
		opts.MetricsURLs[servers.Name(i)] = servers.MetricsURL(i)
	}
	run, err = Run(ctx, client, arm.Scenario(), opts, stop, sink)
	if gone := servers.Outlived("loadgen"); gone != nil && ctx.Err() == nil {
		return nil, gone // which is why, however far the load had come; it is not to be kept beside the others
	}
	return run, err
}
