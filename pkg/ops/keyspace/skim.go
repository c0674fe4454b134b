package keyspace

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"kvd/pkg/ops/progress"
)

const (
	// window is how many keys in a row are listed between two skips.
	window = 500
	// slice is how many keys one request counts at most, where it can be helped:
	// etcd holds up the writes of the member it counts on.
	slice = 20_000
	// maxCounts bounds how many ranges a skim counts in all. Past that the rest
	// of each group is counted at once.
	maxCounts = 5_000
)

// lister lists the names of keys: all of them while that fits 3/8 of the budget,
// and from there on windows of them, with the keys in between counted range by
// range. So every key is counted in its group, listed or not. How many keys
// there are is not known, and asking would stall the member; so the gaps between
// the windows are at first as large as a window and double with each 1/64 of the
// budget. What has windows of one density is a stratum of its own.
type lister struct {
	r      *reader
	t      *tally
	sink   progress.Sink
	budget int64 // bytes, for names and values
	end    string
	page   int64 // keys in one answer, from servers without streams

	last    string // the last key listed
	listed  int64
	windows int
	counts  int
}

// list lists what the prefix holds.
func (l *lister) list(ctx context.Context, from string) error {
	whole, err := l.walk(ctx, from, -1)
	if err != nil || whole {
		return err
	}
	density := l.r.bytes / max(l.listed, 1)
	perGap := max(2*window, l.budget/64/max(density, 1))
	for gap := int64(window); ; gap *= 2 {
		l.t.part()
		for until := l.listed + perGap; l.listed < until; {
			if whole, err := l.hop(ctx, gap); err != nil || whole {
				return err
			}
		}
	}
}

// hop skips a gap and lists a window. It is true if the end was reached.
func (l *lister) hop(ctx context.Context, gap int64) (bool, error) {
	group := l.t.group(l.last)
	_, end := rangeOf(group.prefix)
	next, err := l.skip(ctx, group, smaller(end, l.end), gap)
	if err != nil || next == "" {
		return true, err
	}
	l.windows++
	return l.walk(ctx, next, window)
}

// walk lists keys from a place on: max of them, or, if max is negative, as many
// as a share of the budget pays for. It is true if the end was reached.
func (l *lister) walk(ctx context.Context, from string, most int64) (bool, error) {
	whole := true
	var n int64
	page := l.page
	if most >= 0 {
		page = min(page, most)
	}
	err := l.r.scan(ctx, from, l.end, page, func(kvs []*mvccpb.KeyValue) (bool, error) {
		for i, kv := range kvs {
			if most >= 0 && n >= most {
				whole = false
				return false, nil
			}
			s, _ := l.t.count(kv)
			l.t.choose(s, string(kv.Key), l.windows)
			n++
			l.listed++
			if most < 0 && l.listed%window == 0 {
				l.windows++
			}
			if i == len(kvs)-1 || most >= 0 {
				l.last = string(kv.Key)
			}
		}
		l.sink.Event(progress.Event{Op: "read keys", Phase: "listing keys, without values", Done: l.listed, Unit: "keys"})
		if most < 0 && l.r.bytes > l.budget*3/8 {
			whole = false
			return false, nil
		}
		return true, nil
	})
	return whole, err
}

// skip counts about want keys behind the last one into its group, without
// listing them, and returns where to go on: in front of the first key that was
// not counted, at the group's end, or "" behind the last key of all.
func (l *lister) skip(ctx context.Context, group *stratum, limit string, want int64) (string, error) {
	g := newGlide(l.last, limit)
	for skipped := int64(0); skipped < want && !g.done(); {
		end := g.next()
		if l.counts >= maxCounts {
			end = limit
		}
		l.counts++
		n, err := l.r.count(ctx, g.cur, end)
		if err != nil {
			return "", err
		}
		if n <= 1 || n <= min(slice, 2*want-skipped) || l.counts > maxCounts {
			group.keys += n
			group.loose = group.loose || (n > 0 && !l.closed(group.prefix))
			skipped += n
			g.accept(end)
			continue
		}
		if g.narrow() {
			continue
		}
		first, err := l.firstKey(ctx, g.cur, end)
		if err != nil {
			return "", err
		}
		group.keys++
		skipped++
		g.enter(first)
	}
	if g.cur == allEnd {
		return "", nil
	}
	return g.cur, nil
}

// closed reports that all keys with a group's prefix are in that group. Below a
// prefix that is no resource of Kubernetes and has fewer segments than a group
// may have, there may be groups with more.
func (l *lister) closed(prefix string) bool {
	if p, ok := l.t.layout.ResourcePrefix(prefix + "x"); ok && p == prefix {
		return true
	}
	return strings.Count(strings.TrimPrefix(prefix, "/"), "/") >= 2
}

// firstKey returns the first key of a range that has one.
func (l *lister) firstKey(ctx context.Context, from, end string) (string, error) {
	found := from
	err := l.r.scan(ctx, from, end, 1, func(kvs []*mvccpb.KeyValue) (bool, error) {
		found = string(kvs[0].Key)
		return false, nil
	})
	return found, err
}
