package keyspace

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/wait"
)

const (
	// responseTarget is how large one answer should become, in bytes. A page
	// with values is made smaller or larger to stay near it.
	responseTarget = 1 << 20
	// keysPage is how many keys without values one page has: some 500 KiB.
	keysPage = 5000
	// bytesPerName is about what a key without its value takes in an answer.
	bytesPerName = 100
	// firstPage is how many keys with values the first page has, of which
	// nothing is known yet (etcd's own RangeStream begins with as many).
	firstPage = 10
	// maxFetch is how many keys one request reads by name: etcd's default
	// --max-txn-ops. A member that refuses as many is asked for fewer.
	maxFetch = 128
	// defaultRate bounds how fast values are read, in bytes per second, so that
	// others get their turn at the member's disk and network.
	defaultRate = 64 << 20
)

// reader reads one member's keys at one revision, without the quorum, in small
// answers, and keeps count of what it reads.
type reader struct {
	m       *cluster.MemberClient
	layout  keys.Layout
	rev     int64
	paged   bool // the member has no RangeStream: etcd before 3.7, or a learner
	single  bool // it takes no Txn: a learner
	timeout time.Duration
	rate    int64 // bytes per second
	most    int64 // keys that one request reads by name

	bytes    int64 // read so far
	requests int64
	began    time.Time
}

// newReader connects and pins the revision that the member has now.
func newReader(ctx context.Context, m *cluster.MemberClient, l keys.Layout, timeout time.Duration) (*reader, error) {
	resp, err := m.Get(ctx, probeKey, clientv3.WithCountOnly())
	if err != nil {
		return nil, needsAllKeys(err)
	}
	return &reader{m: m, layout: l, rev: resp.Header.Revision, timeout: timeout, rate: defaultRate, most: maxFetch, began: time.Now(), requests: 1}, nil
}

// needsAllKeys says what is missing to who may not read the key that nobody has: it
// is asked for to learn the revision and the oldest one, which are the whole store's.
func needsAllKeys(err error) error {
	if fault.CauseOf(err) != cluster.CausePermissionDenied {
		return err
	}
	return &fault.Error{Kind: fault.Denied, Cause: cluster.CausePermissionDenied, Op: "read", Err: err,
		Msg:  "this takes read on all keys, also where only some are asked for: revisions are those of the whole store",
		Hint: "grant it to a role of the user: `etcdctl role grant-permission ROLE read '' --from-key`, or use a user with the root role"}
}

func (r *reader) count(ctx context.Context, from, end string) (int64, error) {
	r.requests++
	resp, err := r.m.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(r.rev), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return resp.Count, nil
}

// scan visits the keys of [from, end) in order, with or without their values,
// until visit says stop.
//
// A Range with a limit makes etcd count all keys to the end of the range, for
// every page anew. RangeStream (3.7) does not, so it is used where it exists;
// elsewhere each page's range ends where the group of keys does.
// names is how many keys without values one answer should have; 0 reads the
// values as well, in answers of responseTarget bytes.
func (r *reader) scan(ctx context.Context, from, end string, names int64, visit visitor) error {
	if r.paged {
		return r.scanPages(ctx, from, end, names, visit)
	}
	begun, err := r.scanStream(ctx, from, end, names == 0, visit)
	switch cause := fault.CauseOf(err); {
	case begun:
	case cause == cluster.CauseUnsupported, cause == cluster.CauseLearner: // of which a learner serves plain ones alone
		r.paged = true
		return r.scanPages(ctx, from, end, names, visit)
	}
	return err
}

// visitor is given what one answer holds. It returns false to stop.
type visitor func([]*mvccpb.KeyValue) (bool, error)

func (r *reader) scanStream(ctx context.Context, from, end string, values bool, visit visitor) (begun bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.requests++
	ch, err := r.m.Etcd().GetStream(ctx, from, r.options(end, values)...)
	if err != nil {
		return false, r.m.Explain(ctx, "read keys", err)
	}
	defer func() {
		cancel()
		for range ch { //nolint:revive // the client's goroutine ends only when it is read to its end
		}
	}()
	stall := time.NewTimer(r.timeout)
	defer stall.Stop()
	for {
		stall.Reset(r.timeout)
		select {
		case chunk, ok := <-ch:
			if !ok {
				return begun, nil
			}
			if err := chunk.Err(); err != nil {
				return begun, r.m.Explain(ctx, "read keys", err)
			}
			begun = true
			if err := r.took(ctx, proto.Size(chunk.RangeResponse), values); err != nil {
				return begun, err
			}
			if more, err := visit(chunk.Kvs); err != nil || !more {
				return begun, err
			}
		case <-stall.C:
			return begun, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseDeadline, Op: "read keys", Subject: r.m.Label(),
				Msg: "the member stopped sending for " + r.timeout.String(), Hint: "try again, or raise --command-timeout"}
		case <-ctx.Done():
			return begun, r.m.Explain(ctx, "read keys", ctx.Err())
		}
	}
}

func (r *reader) scanPages(ctx context.Context, from, end string, names int64, visit visitor) error {
	limit, values := names, names == 0
	if values {
		limit = firstPage
	}
	until := end // of the page's range: that of the group in hand
	for from != "" {
		r.requests++
		resp, err := r.m.Get(ctx, from, append(r.options(until, values), clientv3.WithLimit(limit))...)
		if err != nil {
			return err
		}
		size := proto.Size((*pb.RangeResponse)(resp))
		if err := r.took(ctx, size, values); err != nil {
			return err
		}
		if len(resp.Kvs) > 0 {
			if more, err := visit(resp.Kvs); err != nil || !more {
				return err
			}
		}
		from, until = r.nextPage(resp, until, end)
		if values {
			limit = adjust(limit, len(resp.Kvs), size)
		}
	}
	return nil
}

// nextPage returns the range of the page behind one, or "" for none.
func (r *reader) nextPage(resp *clientv3.GetResponse, until, end string) (string, string) {
	if !resp.More || len(resp.Kvs) == 0 {
		if until == end {
			return "", ""
		}
		return until, end // the group is read: look for the next one
	}
	last := string(resp.Kvs[len(resp.Kvs)-1].Key)
	if g := groupPrefix(r.layout, last, 1); g != "" {
		end = smaller(prefixEnd(g), end)
	}
	return last + "\x00", end
}

// adjust picks the limit of the next page from the last one, which had so many keys
// and bytes. It grows by steps and shrinks at once: large values are often neighbours,
// and the member has all of an answer in memory.
func adjust(limit int64, keys, size int) int64 {
	switch {
	case size < responseTarget/2:
		return min(2*limit, keysPage)
	case size > responseTarget:
		return max(int64(keys)*responseTarget/int64(size), 1)
	}
	return limit
}

func (r *reader) options(end string, values bool) []clientv3.OpOption {
	opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithRev(r.rev), clientv3.WithSerializable()}
	if !values {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	return opts
}

// took counts what was read, and waits where values come faster than they
// should.
func (r *reader) took(ctx context.Context, size int, values bool) error {
	r.bytes += int64(size)
	if !values {
		return nil
	}
	due := time.Duration(float64(r.bytes) / float64(r.rate) * float64(time.Second))
	ahead := due - time.Since(r.began)
	if ahead <= 0 {
		return nil
	}
	if err := wait.For(ctx, ahead); err != nil {
		return r.m.Explain(ctx, "read keys", err)
	}
	return nil
}

// fetch reads keys by name, in one request, or from a learner, which takes no
// transaction, one by one.
func (r *reader) fetch(ctx context.Context, names []string) ([]*mvccpb.KeyValue, int, error) {
	if !r.single {
		kvs, size, err := r.fetchAtOnce(ctx, names)
		if fault.CauseOf(err) != cluster.CauseLearner {
			return kvs, size, err
		}
		r.single = true
	}
	var kvs []*mvccpb.KeyValue
	size := 0
	for _, k := range names {
		r.requests++
		resp, err := r.m.Get(ctx, k, clientv3.WithRev(r.rev))
		if err != nil {
			return nil, 0, err
		}
		n := proto.Size((*pb.RangeResponse)(resp))
		if err := r.took(ctx, n, true); err != nil {
			return nil, 0, err
		}
		kvs, size = append(kvs, resp.Kvs...), size+n
	}
	return kvs, size, nil
}

func (r *reader) fetchAtOnce(ctx context.Context, names []string) ([]*mvccpb.KeyValue, int, error) {
	ops := make([]clientv3.Op, len(names))
	for i, k := range names {
		ops[i] = clientv3.OpGet(k, clientv3.WithRev(r.rev), clientv3.WithSerializable())
	}
	rctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	r.requests++
	resp, err := r.m.Etcd().Txn(rctx).Then(ops...).Commit()
	if err != nil {
		return nil, 0, r.m.Explain(ctx, "read keys", err)
	}
	size := proto.Size((*pb.TxnResponse)(resp))
	if err := r.took(ctx, size, true); err != nil {
		return nil, 0, err
	}
	kvs := make([]*mvccpb.KeyValue, 0, len(names))
	for _, one := range resp.Responses {
		kvs = append(kvs, one.GetResponseRange().GetKvs()...)
	}
	return kvs, size, nil
}
