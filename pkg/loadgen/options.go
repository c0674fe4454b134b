package loadgen

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
)

// Root is what every key begins with that loadgen writes, so that Clean finds
// them and nothing else.
const Root = "/kvd-loadgen/"

// Options is how a scenario is played. The zero value is no good; begin with
// DefaultOptions.
type Options struct {
	Prefix    string        // in place of Kubernetes' "/registry"; under Root
	Seed      uint64        // what all that is random follows from
	Duration  time.Duration // of the measurement; 0: until stopped
	Warmup    time.Duration // before it, not counted
	TimeScale float64       // divides periods and times to live: 10 makes ten minutes one
	Values    shape.Values  // what the bytes of values are
	Arrival   Arrival       // what decides when a turn is due
	Ramp      time.Duration // of the warm-up: actors begin one after the other in it
	StartAt   time.Time     // when the warm-up begins, so that several generators begin together; zero: when all is ready
	Shard     Shard         // which part of the load is played here

	APIServers int      // each with connections of its own
	Resources  int      // connections of each; more than the scenario uses stand idle
	Policy     Policy   // to which members
	Avoid      []string // names of members that none of them connects to

	MaxInFlight    int           // turns that may wait or be under way; what is due beyond is left out
	RequestTimeout time.Duration // kube-apiserver's is 60 s
	Drain          time.Duration // how long answers are waited for at the end

	MetricsURLs metrics.Overrides // of members that serve their metrics elsewhere than at their client URL

	TargetIsMine     bool    // load it although it is not on this machine
	BesideKubernetes bool    // load it although Kubernetes' objects are in it
	StopAtUsage      float64 // share of the quota at which the run ends; 0: at none, for a load that is about it
	StopAtNoSpace    bool    // the first write that is refused for want of space ends the run

	Limits Limits
}

// Limits are what the generator may need itself before its figures say nothing
// of the server.
type Limits struct {
	CPU     float64       // mean share of the processors it may use
	Lag     time.Duration // 99 of 100 turns must begin so soon after they are due, or in a quarter of the response time
	Offered float64       // share of the turns that must be begun at all
}

// DefaultOptions returns what the command line begins with.
func DefaultOptions() Options {
	return Options{
		Prefix: Root + "registry", Seed: 1, Duration: time.Minute, Warmup: 5 * time.Second, TimeScale: 1, Values: shape.Plain, Arrival: Open,
		APIServers: 3, Policy: Spread,
		MaxInFlight: 50_000, RequestTimeout: time.Minute, Drain: 10 * time.Second,
		StopAtUsage: 0.8, StopAtNoSpace: true,
		Limits: Limits{CPU: 0.8, Lag: 10 * time.Millisecond, Offered: 0.95},
	}
}

// Check finds what is wrong with the options before anything is sent.
func (o Options) Check() error {
	bad := func(format string, args ...any) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "loadgen", Msg: fmt.Sprintf(format, args...)}
	}
	switch {
	case !strings.HasPrefix(o.Prefix, Root) || len(o.Prefix) == len(Root) || strings.HasSuffix(o.Prefix, "/"):
		return bad("--prefix %q: want one that begins with %s and does not end with a slash, so that kvd loadgen clean removes what was written and nothing else", o.Prefix, Root)
	case o.Duration < 0 || o.Warmup < 0:
		return bad("--duration and --warmup can't be negative")
	case o.Ramp < 0 || o.Ramp > o.Warmup:
		return bad("--ramp is a part of --warmup: from 0 to %s", o.Warmup)
	case o.Shard.Of > o.APIServers:
		return bad("--shard %s: parts are of whole API servers, and there are %d (--apiservers)", o.Shard.String(), o.APIServers)
	case o.TimeScale <= 0:
		return bad("--time-scale must be more than 0")
	case o.APIServers < 1 || o.Resources < 0:
		return bad("--apiservers must be 1 or more, --resources 0 or more")
	case o.APIServers > mostConnections || o.APIServers*o.Resources > mostConnections:
		return bad("--apiservers %d with --resources %d: that is more connections than one generator can have, %d at most", o.APIServers, o.Resources, mostConnections)
	case o.MaxInFlight < 1:
		return bad("--max-in-flight must be 1 or more")
	case o.RequestTimeout <= 0:
		return bad("--request-timeout must be more than 0")
	case o.StopAtUsage < 0 || o.StopAtUsage > 1:
		return bad("--stop-at-usage is a share of the quota, from 0 to 1")
	}
	return nil
}

// header is what of the options the result says, beside what it has a place of its
// own for.
func (o Options) header() result.Options {
	return result.Options{
		APIServers: o.APIServers, Resources: o.Resources, Values: string(o.Values), Arrival: string(o.Arrival), Ramp: o.Ramp.Seconds(),
		Shard: o.Shard.String(), MaxInFlight: o.MaxInFlight, RequestTimeout: o.RequestTimeout.Seconds(), Templates: shape.Hash(),
	}
}

// processors is how many the generator may use.
func processors() int { return runtime.GOMAXPROCS(0) }
