package diagnose

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// CollectOptions say how closely to look at a live cluster.
type CollectOptions struct {
	Interval    time.Duration // between the two samples; 0: one sample, which proves little
	MetricsURLs []string      // NAME=URL, for members that serve /metrics elsewhere than their client URL
	SampleBytes int64         // of keys and values, read from one follower; 0: none
	LeaseLimit  int           // leases that are asked for their time and keys
	Revisions   int64         // of the latest that are looked at for who writes, fewer where one has several changes; 0: none
	Hash        bool          // ask each member for its hash, which stalls it
	Layout      keys.Layout
	Limits      Limits
}

// DefaultCollectOptions returns what `kvd diagnose` does when told nothing.
func DefaultCollectOptions() CollectOptions {
	return CollectOptions{Interval: 10 * time.Second, SampleBytes: 16 << 20, LeaseLimit: 32, Revisions: 5000, Layout: keys.Default(), Limits: DefaultLimits()}
}

// collector gathers an Input from a live cluster.
type collector struct {
	client *cluster.Client
	o      CollectOptions
	urls   metrics.Overrides
	http   *http.Client
	sink   progress.Sink
	in     *Input
}

const op = "diagnose"

// Collect looks at a live cluster twice, and then at what need not be compared:
// its own reads fall behind the second sample, so that they are not measured. What
// cannot be had is in Input.Missing. It is an error only where no endpoint
// answered at all, or ctx ended.
//
// Nothing needs the quorum, but for users and roles, which are asked for where some
// are set up and there is a leader. What is sent is in Input.Asked.
func Collect(ctx context.Context, client *cluster.Client, o CollectOptions, sink progress.Sink) (*Input, error) {
	urls, err := metrics.ParseOverrides(o.MetricsURLs)
	if err != nil {
		return nil, err
	}
	c := &collector{client: client, o: o, urls: urls, http: client.HTTPClient(), sink: sink,
		in: &Input{Source: client.Config().Source, Limits: o.Limits}}
	defer c.http.CloseIdleConnections()
	first, err := c.moment(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.knownNames(first.View); err != nil {
		return nil, err
	}
	leases := c.leases(ctx, first.View)
	if o.Interval > 0 {
		sink.Event(progress.Event{Op: op, Phase: "waiting for the second sample", Note: o.Interval.String()})
		if err := pause(ctx, o.Interval); err != nil {
			return nil, err
		}
		c.in.Before, c.in.Missing = first, nil // what failed then and works now is not missing
		if first, err = c.moment(ctx); err != nil {
			return nil, err
		}
	} else {
		c.leftOut(NeedTwo, "there is one sample only, and one shows no change", "--interval 10s takes two")
		c.leftOut(NeedDelta, "there is one sample only: what a process has counted since its start says nothing of now", "--interval 10s takes two")
	}
	c.in.Now, c.in.At = first, first.View.At
	c.restarted()
	c.again(ctx)
	c.rest(ctx, leases)
	if ctx.Err() != nil {
		return nil, cluster.Classify(op, "", ctx.Err())
	}
	return c.in, nil
}

func (c *collector) miss(n Need, subject, why, hint string) {
	c.in.Missing = append(c.in.Missing, Missing{Need: n, Subject: subject, Why: why, Hint: hint})
}

// leftOut notes what nobody asked for.
func (c *collector) leftOut(n Need, why, hint string) {
	c.in.Missing = append(c.in.Missing, Missing{Need: n, Why: why, Hint: hint, ByChoice: true})
}

func (c *collector) missErr(n Need, subject string, err error) {
	c.in.Missing = append(c.in.Missing, Missing{Need: n, Subject: subject, Why: fault.Why(err), Hint: fault.HintOf(err),
		Cause: fault.CauseOf(err), Denied: fault.KindOf(err) == fault.Denied})
}

func (c *collector) asked(what string, n int) {
	if n == 0 {
		return
	}
	if i := slices.IndexFunc(c.in.Asked, func(a Asked) bool { return a.What == what }); i >= 0 {
		c.in.Asked[i].Count += n
		return
	}
	c.in.Asked = append(c.in.Asked, Asked{what, n})
}

// knownNames refuses a --metrics-url for nobody.
func (c *collector) knownNames(v cluster.View) error {
	var known []string
	for _, m := range v.Members {
		known = append(known, m.Name, cluster.FormatID(m.ID))
	}
	if u := c.urls.Unknown(known); len(u) > 0 {
		return &fault.Error{Kind: fault.Usage, Cause: cluster.CauseMemberNotFound, Op: op, Subject: u[0], Msg: "--metrics-url names no member of this cluster", Hint: "`kvd status` lists the members"}
	}
	return nil
}

// moment takes a view and everybody's metrics.
func (c *collector) moment(ctx context.Context) (*Moment, error) {
	view, err := c.client.View(ctx)
	if err != nil {
		return nil, err
	}
	c.asked("Status, and list of members", len(view.Members))
	m := &Moment{View: view, Metrics: map[uint64]*metrics.Sample{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	asked := 0
	for _, one := range view.Members {
		at := c.urls.For(one.Name, cluster.FormatID(one.ID), one.Endpoint)
		if at == "" || one.Status == nil && at == one.Endpoint {
			continue // checkEndpoints says why it does not answer
		}
		asked++
		wg.Go(func() {
			s, err := metrics.FetchOf(ctx, c.http, at, one.ID)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.missErr(NeedMetrics, name(one), err)
				return
			}
			m.Metrics[one.ID] = s
		})
	}
	wg.Wait()
	c.asked("GET /metrics", asked)
	for id, s := range m.Metrics {
		quotaByMetrics(view, id, s)
	}
	return m, nil
}

// quotaByMetrics fills in the quota that servers before 3.6 tell by their metrics
// only (quotaBackendBytes in server/storage/metrics.go).
func quotaByMetrics(v cluster.View, id uint64, s *metrics.Sample) {
	q, ok := s.Value(metrics.QuotaBytes, nil)
	for _, m := range v.Members {
		if ok && m.ID == id && m.Status != nil && !m.Status.QuotaKnown {
			m.Status.Quota, m.Status.QuotaKnown = int64(q), true
		}
	}
}

// restarted lists whose counters cannot be compared.
func (c *collector) restarted() {
	if c.in.Before == nil {
		return
	}
	for id, s := range c.in.Now.Metrics {
		m, _ := c.in.Now.View.MemberByID(id)
		switch from := c.in.Before.Metrics[id]; {
		case from == nil:
			c.miss(NeedDelta, name(m), "its metrics are there at the second sample only", "run it again")
		case s.Restarted(from):
			c.miss(NeedDelta, name(m), "it was restarted between the samples, so that its counters began anew", "run it again")
		}
	}
}

// again looks more often where members seem to hold different data.
func (c *collector) again(ctx context.Context) {
	if c.in.Before == nil || !LooksApart(c.in.Now.View) {
		return
	}
	const looks, apart = 5, 300 * time.Millisecond
	for range looks {
		if pause(ctx, apart) != nil {
			return
		}
		v, err := c.client.View(ctx)
		if err != nil {
			return
		}
		c.asked("Status, and list of members", len(v.Members))
		c.in.Again = append(c.in.Again, v)
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if err := wait.For(ctx, d); err != nil {
		return cluster.Classify(op, "", err)
	}
	return nil
}
