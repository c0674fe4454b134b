package keyspace

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
)

// LiveOptions says how to read the key space of a running member.
type LiveOptions struct {
	Layout         keys.Layout   // where Kubernetes' objects are: pages end where a resource does
	Timeout        time.Duration // for one answer
	BytesPerSecond int64         // at most; 0 is 64 MiB/s
	SpoolDir       string        // where changes are sorted that do not fit into memory; empty: the system's folder for temporary files
	Memory         int64         // for sorting, in bytes; 0 is 48 MiB
	Op             string        // what it is for, in events and errors
	Sink           progress.Sink

	// noStream has the reader do what it does with servers before 3.7.
	noStream bool
}

// LiveSource is the key space of a running cluster, as one member has it.
type LiveSource struct {
	m *cluster.MemberClient
	o LiveOptions
}

// OpenLive returns the key space of a member. Nothing is sent yet, and there is
// nothing to close but the client.
//
// All reads are serializable: the member answers from its own data, without the
// quorum. What it has not applied yet is yet to come. Keys are read in answers of
// about 1 MiB at one revision.
func OpenLive(m *cluster.MemberClient, o LiveOptions) *LiveSource {
	if o.Sink == nil {
		o.Sink = progress.Discard
	}
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	if o.BytesPerSecond <= 0 {
		o.BytesPerSecond = defaultRate
	}
	if o.Timeout <= 0 {
		o.Timeout = cluster.DefaultCommandTimeout
	}
	return &LiveSource{m: m, o: o}
}

// Name names the member.
func (s *LiveSource) Name() string { return s.m.Label() }

// Close does nothing: the client is its owner's.
func (s *LiveSource) Close() error { return nil }

// Bounds searches for the oldest revision with some log2(head) small reads.
func (s *LiveSource) Bounds(ctx context.Context) (Bounds, error) {
	r, err := s.reader(ctx)
	if err != nil {
		return Bounds{}, err
	}
	oldest, err := OldestRevision(ctx, s.m, r.rev)
	return Bounds{Oldest: oldest, Head: r.rev}, err
}

// Cost is bounded by what the member's file has in use.
func (s *LiveSource) Cost(ctx context.Context, _ Query) (Cost, error) {
	st, err := s.m.Status(ctx)
	return Cost{Bytes: st.DBInUse, Live: true}, err
}

func (s *LiveSource) reader(ctx context.Context) (*reader, error) {
	r, err := newReader(ctx, s.m, s.o.Layout, s.o.Timeout)
	if err != nil {
		return nil, err
	}
	r.paged, r.rate = s.o.noStream, s.o.BytesPerSecond
	return r, nil
}

// Keys reads the range at one revision. Where that is the latest, and a compaction
// passes it on the way, the rest is read at a newer one, and an event says so.
func (s *LiveSource) Keys(ctx context.Context, q Query, fn func(*Item) error) error {
	r, err := s.reader(ctx)
	if err != nil {
		return err
	}
	head := r.rev
	if q.Rev != 0 {
		r.rev = q.Rev
	}
	from, end := q.live()
	for {
		last, err := s.scan(ctx, r, q, from, end, fn)
		if cause := fault.CauseOf(err); cause != cluster.CauseCompacted && cause != cluster.CauseFutureRevision {
			return unwrapGiven(err)
		}
		if q.Rev != 0 {
			return s.outOfBounds(ctx, q.Rev, head, err)
		}
		pinned := r.rev
		if r, err = s.reader(ctx); err != nil {
			return err
		}
		s.o.Sink.Event(progress.Event{Op: s.o.Op, Subject: s.Name(), Warning: true, Note: fmt.Sprintf(
			"revision %d was compacted while it was read: what follows on %q is read at revision %d", pinned, last, r.rev)})
		if last != "" {
			from = last + "\x00"
		}
	}
}

// live returns the range as etcd wants it.
func (q Query) live() (from, end string) {
	from, end = q.From, q.End
	if from == "" {
		from = "\x00"
	}
	if end == "" {
		end = allEnd
	}
	return from, end
}

// given is an error of the function that is given the items, to be told from those
// of reading.
type given struct{ error }

func unwrapGiven(err error) error {
	if g, ok := err.(given); ok { //nolint:errorlint // made below, and not wrapped
		return g.error
	}
	return err
}

// scan reads a range, and returns the last key that was given.
func (s *LiveSource) scan(ctx context.Context, r *reader, q Query, from, end string, fn func(*Item) error) (last string, err error) {
	names := int64(0)
	if q.KeysOnly {
		names = keysPage
	}
	var done int64
	err = r.scan(ctx, from, end, names, func(kvs []*mvccpb.KeyValue) (bool, error) {
		for _, kv := range kvs {
			it := itemOf(kv, r.rev)
			if q.KeysOnly {
				it.Value, it.Size, it.Lease = nil, 0, 0
			}
			if err := fn(&it); err != nil {
				return false, given{err}
			}
		}
		if len(kvs) == 0 { // the last answer of a stream may be empty
			return true, nil
		}
		done += int64(len(kvs))
		last = string(kvs[len(kvs)-1].Key)
		s.o.Sink.Event(progress.Event{Op: s.o.Op, Subject: s.Name(), Phase: "reading keys", Done: done, Unit: "keys"})
		return true, nil
	})
	return last, err
}

// itemOf makes an item of what a member has at a revision.
func itemOf(kv *mvccpb.KeyValue, rev int64) Item {
	return Item{Size: recordSize(kv), ref: reference{at: rev}, KeyValue: dbfile.KeyValue{Key: kv.Key, Value: kv.Value, CreateRevision: kv.CreateRevision,
		ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease}}
}

// outOfBounds says which revisions there are, where the one that was asked for is
// none of them.
func (s *LiveSource) outOfBounds(ctx context.Context, rev, head int64, err error) error {
	oldest, serr := OldestRevision(ctx, s.m, head)
	if serr != nil {
		return err
	}
	b := Bounds{Oldest: oldest, Head: head}
	if _, berr := b.Revision(s.Name(), rev); berr != nil {
		return berr
	}
	return err
}

// Load reads the value at the revision that the item was read at, and the lease,
// which etcd from 3.7 on does not tell of keys without their values.
func (s *LiveSource) Load(ctx context.Context, it *Item) error {
	resp, err := s.m.Get(ctx, string(it.Key), clientv3.WithRev(it.ref.at))
	switch {
	case fault.CauseOf(err) == cluster.CauseCompacted:
		return &fault.Error{Kind: fault.Refused, Cause: cluster.CauseCompacted, Op: "read", Subject: s.Name(),
			Msg: fmt.Sprintf("revision %d, at which %q was listed, has been compacted since", it.ref.at, it.Key), Hint: "begin again"}
	case err != nil:
		return err
	case len(resp.Kvs) == 0:
		return fault.New(fault.Internal, "a key that was listed has no value at the same revision")
	}
	*it = itemOf(resp.Kvs[0], it.ref.at)
	return nil
}
