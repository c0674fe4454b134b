package keyspace

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/progress"
)

// Writes says what was written in a time, by groups of keys.
type Writes struct {
	At      time.Time `json:"at"` // when it began
	Source  string    `json:"source"`
	Seconds float64   `json:"seconds"`
	From    int64     `json:"from_revision"` // the latest before
	To      int64     `json:"to_revision"`
	// Entries are those of raft's log that the member applied meanwhile. What is
	// granted to leases, and refused, is among them, and no revision comes of it.
	Entries int64        `json:"raft_entries"`
	By      By           `json:"by"`
	Depth   int          `json:"depth,omitempty"`
	Prefix  Name         `json:"-"`
	Capped  bool         `json:"groups_capped"`
	Total   Rate         `json:"total"`
	Groups  []WriteGroup `json:"groups"` // by changes, most first
}

// WriteGroup is what was written to a group of keys.
type WriteGroup struct {
	Name Name `json:"-"`
	Rate
	Share       float64      `json:"share_ratio"` // of all changes
	MostRevised *KeyCount    `json:"most_revised_key,omitempty"`
	Groups      []WriteGroup `json:"groups,omitempty"`
}

// Rate is how much was written.
type Rate struct {
	Puts     int64   `json:"puts"`
	Deletes  int64   `json:"deletes"`
	Bytes    int64   `json:"bytes"` // records, as Item.Size
	Changes  float64 `json:"changes_per_second"`
	ByteRate float64 `json:"bytes_per_second"`
}

// MarshalJSON adds the name: "group", or "group_base64" if it is not UTF-8.
func (g WriteGroup) MarshalJSON() ([]byte, error) {
	type plain WriteGroup
	return named("group", g.Name, plain(g))
}

// maxWritten bounds how many keys are told apart while writes are counted.
const maxWritten = 100_000

// writes counts the changes that a watch brings.
type writes struct {
	*groups
	keys map[string]*written
}

type written struct {
	n  int64
	in *node
}

// WatchWrites counts what is written for d, or until ctx ends: then the error says
// so, and the result is of the time until then. A member that does not answer at the
// end is an error too, beside what had come from it. It is a watch, so that the member
// sends all that is written meanwhile, values included. Memory is bounded: of more
// than 100,000 keys the rest are counted in their groups only.
func WatchWrites(ctx context.Context, s *LiveSource, o BreakdownOptions, d time.Duration) (Writes, error) {
	out := Writes{Source: s.Name(), By: o.By, Prefix: Name(o.Prefix)}
	if o.By == ByTree || o.By == ByPrefix {
		out.Depth = o.Depth
	}
	before, err := s.m.Status(ctx)
	if err != nil {
		return out, err
	}
	r, err := s.reader(ctx)
	if err != nil {
		return out, err
	}
	out.At, out.From, out.To = time.Now(), r.rev, r.rev
	w := &writes{groups: newGroups(o), keys: map[string]*written{}}
	err = w.watch(ctx, s, o.query(), r.rev+1, d)
	took := time.Since(out.At)
	after, gone := s.m.Status(context.WithoutCancel(ctx))
	if gone == nil {
		out.To, out.Entries = after.Revision, int64(after.AppliedIndex)-int64(before.AppliedIndex) //nolint:gosec // indexes
	} else if err == nil { // etcd's client waits for a member to come back, and says nothing
		err = gone
	}
	for key, k := range w.keys {
		k.in.mostRevised.offer(candidate{n: k.n, key: key})
	}
	w.root().gather()
	out.Seconds, out.Capped = took.Seconds(), w.capped
	out.Total = w.root().rate(took)
	out.Groups = w.root().writeGroups(took, out.Total)
	return out, err
}

func (w *writes) watch(ctx context.Context, s *LiveSource, q Query, from int64, d time.Duration) error {
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key, end := q.live()
	ch := s.m.Etcd().Watch(wctx, key, clientv3.WithRange(end), clientv3.WithRev(from))
	done := time.NewTimer(d)
	defer done.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case resp, ok := <-ch:
			if !ok {
				return s.m.Explain(ctx, "watch", ctx.Err())
			}
			if err := resp.Err(); err != nil {
				return s.m.Explain(ctx, "watch", err)
			}
			for _, ev := range resp.Events {
				w.event(ev)
			}
		case <-tick.C:
			s.o.Sink.Event(progress.Event{Op: s.o.Op, Subject: s.Name(), Phase: "watching what is written",
				Done: int64(time.Since(began).Seconds()), Total: int64(d.Seconds()), Unit: "seconds"})
		case <-done.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *writes) event(ev *clientv3.Event) {
	kv, deleted := ev.Kv, ev.Type == mvccpb.Event_DELETE
	var n *node
	if deleted && w.o.byRecord() {
		n = w.flat(string(GroupDeletedSince))
	} else {
		n = w.of(kv.Key, kv.Lease, kv.Value)
	}
	if deleted {
		n.pass(true, tombstoneSize(kv.Key))
	} else {
		n.pass(false, recordSize(kv))
	}
	k := w.keys[string(kv.Key)]
	if k == nil {
		if len(w.keys) >= maxWritten {
			w.capped = true
			return
		}
		k = &written{}
		w.keys[string(kv.Key)] = k
	}
	k.n++
	k.in = n
}

func (n *node) rate(took time.Duration) Rate {
	seconds := max(took.Seconds(), 0.001)
	bytes := n.history + n.deleted
	return Rate{Puts: n.revisions, Deletes: n.tombstones, Bytes: bytes,
		Changes: float64(n.revisions+n.tombstones) / seconds, ByteRate: float64(bytes) / seconds}
}

func (n *node) writeGroups(took time.Duration, all Rate) []WriteGroup {
	out := make([]WriteGroup, 0, len(n.children))
	for _, c := range n.children {
		g := WriteGroup{Name: Name(c.name), Rate: c.rate(took), Groups: c.writeGroups(took, all)}
		g.Share = ratio(g.Changes, all.Changes)
		if c.mostRevised.n > 1 {
			g.MostRevised = &KeyCount{Key: Name(c.mostRevised.key), Revisions: c.mostRevised.n}
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b WriteGroup) int {
		return cmp.Or(cmp.Compare(b.Changes, a.Changes), cmp.Compare(b.Bytes, a.Bytes), strings.Compare(string(a.Name), string(b.Name)))
	})
	return out
}
