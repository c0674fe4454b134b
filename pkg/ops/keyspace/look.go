package keyspace

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
)

// DefaultSampleBytes is how much a look reads if not told otherwise.
const DefaultSampleBytes = 64 << 20

// LookOptions says what to look at and how much it may cost.
type LookOptions struct {
	Prefix      string        // only keys with this prefix; empty: all
	Layout      keys.Layout   // where Kubernetes' objects are
	SampleBytes int64         // read at most about this much, keys and values together
	Exact       bool          // read every value instead, whatever it costs
	Timeout     time.Duration // for one answer
	// BytesPerSecond bounds how fast values are read; 0 is 64 MiB/s.
	BytesPerSecond int64
	Precision      float64 // stop sampling when the error of the total is below this share of it

	// noStream has the reader do what it does with servers before 3.7.
	noStream bool
}

// DefaultLookOptions returns the options of a look that hurts nobody.
func DefaultLookOptions() LookOptions {
	return LookOptions{Layout: keys.Default(), SampleBytes: DefaultSampleBytes, Timeout: cluster.DefaultCommandTimeout, Precision: 0.01}
}

// Look measures what a member stores: exact numbers of keys, and bytes from a
// random sample of the values, or from all of them.
//
// Reads are serializable, at one revision, in answers of about 1 MiB. A
// compaction that passes that revision while it looks makes it begin again once, and so
// do clusters of Kubernetes below prefixes that Layout does not have. Where it does not get
// through that second time it returns what it has.
func Look(ctx context.Context, m *cluster.MemberClient, o LookOptions, sink progress.Sink) (Usage, error) {
	u, err := lookOnce(ctx, m, o, sink)
	if err != nil {
		return u, err
	}
	roots := foundRoots(ctx, m, &u, o.Layout, o.Timeout)
	if len(roots) == 0 {
		return u, nil
	}
	sink.Event(progress.Event{Op: "read keys", Note: "Kubernetes' objects lie below " + words(roots) + ", too; beginning again with that"})
	first := u
	o.Layout = o.Layout.With(strings.Join(roots, ","))
	u, err = lookOnce(ctx, m, o, sink)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		sink.Event(progress.Event{Op: "read keys", Warning: true, Note: "what lies below " + words(roots) + " is not counted as Kubernetes': " + fault.Why(err)})
		return first, nil
	}
	u.ReadBytes, u.Requests = u.ReadBytes+first.ReadBytes, u.Requests+first.Requests
	return u, err
}

func lookOnce(ctx context.Context, m *cluster.MemberClient, o LookOptions, sink progress.Sink) (Usage, error) {
	u, err := look(ctx, m, o, sink)
	if fault.CauseOf(err) == cluster.CauseCompacted {
		sink.Event(progress.Event{Op: "read keys", Note: "a compaction passed by; beginning again"})
		u, err = look(ctx, m, o, sink)
	}
	return u, err
}

func look(ctx context.Context, m *cluster.MemberClient, o LookOptions, sink progress.Sink) (Usage, error) {
	r, err := newReader(ctx, m, o.Layout, o.Timeout)
	if err != nil {
		return Usage{}, err
	}
	r.paged = o.noStream
	if o.BytesPerSecond > 0 {
		r.rate = o.BytesPerSecond
	}
	u := Usage{Layout: o.Layout, Revision: r.rev, Prefix: Name(o.Prefix), Member: m.Label()}
	if u.Oldest, err = OldestRevision(ctx, m, r.rev); err != nil {
		return u, err
	}
	t := newTally(o.Layout, u.Oldest, r.rev)
	if o.Exact {
		err = readAll(ctx, r, t, o, sink)
	} else {
		err = sampleAll(ctx, r, t, o, sink)
	}
	t.fill(&u)
	u.ReadBytes, u.Requests = r.bytes, r.requests
	return u, err
}

// readAll reads every value.
func readAll(ctx context.Context, r *reader, t *tally, o LookOptions, sink progress.Sink) error {
	from, end := rangeOf(o.Prefix)
	return r.scan(ctx, from, end, 0, func(kvs []*mvccpb.KeyValue) (bool, error) {
		for _, kv := range kvs {
			s, c := t.count(kv)
			s.measure(c, 0, kv)
			t.lease(kv)
		}
		sink.Event(progress.Event{Op: "read keys", Phase: "reading every value", Done: r.bytes, Unit: "bytes"})
		return true, nil
	})
}

// sampleAll lists every key, and then reads the values of some.
func sampleAll(ctx context.Context, r *reader, t *tally, o LookOptions, sink progress.Sink) error {
	from, end := rangeOf(o.Prefix)
	names := &lister{r: r, t: t, sink: sink, budget: o.SampleBytes, end: end,
		page: min(keysPage, max(window, o.SampleBytes/16/bytesPerName))}
	if err := names.list(ctx, from); err != nil {
		return err
	}
	t.settle()
	t.shuffle()
	return newSampler(r, t, o, sink).run(ctx)
}
