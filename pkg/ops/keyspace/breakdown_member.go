package keyspace

import (
	"context"
)

// BreakdownMember reads the live keys of a member at one revision: of a sample, or
// with Exact every value. How many older revisions must be kept at least is known
// from the keys; what they take is not.
//
// A compaction that passes the revision makes a sample begin again once. With Exact,
// which takes longer than Kubernetes leaves between two compactions, the rest is read
// at a newer revision, and a warning says from which key on.
func BreakdownMember(ctx context.Context, s *LiveSource, o BreakdownOptions) (Breakdown, error) {
	if !o.Exact {
		return s.sampled(ctx, o)
	}
	return s.counted(ctx, o)
}

func (s *LiveSource) counted(ctx context.Context, o BreakdownOptions) (Breakdown, error) {
	bound, err := s.Bounds(ctx)
	b := o.report(s.Name(), bound)
	if err != nil {
		return b, err
	}
	b.Live, b.Exact = true, true
	g := newGroups(o)
	err = s.Keys(ctx, o.query(), func(it *Item) error {
		n := g.of(it.Key, it.Lease, it.Value)
		older := olderRevisions(it.CreateRevision, it.ModRevision, it.Version, bound.Oldest)
		n.keys++
		n.live += it.Size
		n.revisions += older
		if it.Size > n.largest.n {
			n.largest = candidate{n: it.Size, key: string(it.Key)}
		}
		if older > 0 && older >= n.mostRevised.n {
			n.mostRevised = candidate{n: older + 1, key: string(it.Key)}
		}
		return nil
	})
	g.fill(&b)
	g.unknown(s.o.Op, s.Name(), s.o.Sink)
	return b, err
}

// olderRevisions is how many revisions of a live key are kept at least beside the
// newest: all since it was made, or, where that was compacted, the one that was
// the newest at the oldest revision.
func olderRevisions(create, mod, version, oldest int64) int64 {
	switch {
	case create >= oldest:
		return version - 1
	case mod > oldest:
		return 1
	}
	return 0
}

// sampled makes a breakdown of what Look finds.
func (s *LiveSource) sampled(ctx context.Context, o BreakdownOptions) (Breakdown, error) {
	look := DefaultLookOptions()
	look.Prefix, look.Layout, look.Timeout, look.BytesPerSecond, look.noStream = o.Prefix, o.Layout, s.o.Timeout, s.o.BytesPerSecond, s.o.noStream
	if o.SampleBytes > 0 {
		look.SampleBytes = o.SampleBytes
	}
	u, err := Look(ctx, s.m, look, s.o.Sink)
	b := o.report(s.Name(), Bounds{Oldest: u.Oldest, Head: u.Revision})
	b.Live, b.Exact = true, u.Exact
	g := newGroups(o)
	g.sampled(u)
	g.fill(&b)
	b.Total.Live, b.Total.LiveError = int64(u.Live.Bytes+0.5), int64(u.Live.Error+0.5)
	return b, err
}

// sampled takes the groups that were found in a sample, which are those of prefixes
// or resources, and namespaces.
func (g *groups) sampled(u Usage) {
	if g.o.By == ByNamespace {
		rest := node{keys: u.Keys, live: int64(u.Live.Bytes)}
		for _, s := range u.Spaces {
			n := g.flat(string(s.Namespace))
			n.keys, n.live = s.Keys, s.Bytes
			rest.keys, rest.live = rest.keys-s.Keys, max(0, rest.live-s.Bytes)
		}
		if rest.keys > 0 {
			g.flat(string(GroupOther)).add(&rest)
		}
		return
	}
	for _, found := range u.Groups {
		name := string(found.Prefix)
		var n *node
		switch {
		case g.o.By == ByTree:
			n = g.branch([]byte(name))
		case g.o.By == ByPrefix:
			n = g.flat(name)
		case found.Resource != "":
			n = g.flat(found.Resource)
		default:
			n = g.flat(string(GroupNoObject))
		}
		n.keys += found.Keys
		n.live += int64(found.Bytes.Bytes + 0.5)
		n.revisions += found.History
		n.variance += found.Bytes.Error * found.Bytes.Error
	}
}
