package k8s

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wait"
)

// cachePage is how many objects at most API servers read at a time for themselves
// (cacher.go, watcher.go, consistency/checker.go).
const cachePage = 10_000

// knowsStreams reports that all members have RangeStream, which came with etcd
// 3.7. The API server finds that out by asking, and reads pages where not.
func knowsStreams(env *loadgen.Env) bool {
	for _, m := range env.Members {
		v, err := semver.NewVersion(m.Version)
		if err != nil || v.Major < 3 || v.Major == 3 && v.Minor < 7 {
			return false
		}
	}
	return true
}

// needStreams is the error of a load that was told to use them where there are
// none.
func needStreams(env *loadgen.Env, s loadgen.Scenario) error {
	if knowsStreams(env) {
		return nil
	}
	return &fault.Error{Kind: fault.Refused, Cause: "no_range_stream", Op: "loadgen", Subject: s.Name(), Msg: "--stream needs etcd 3.7 on every member",
		Hint: "leave it out: API servers read pages of such a cluster too"}
}

// listing is a way to read all objects of a resource.
type listing struct {
	page         int64         // objects of a page, 0: all in one answer
	stream       bool          // each answer is a RangeStream, etcd 3.7's
	serializable bool          // from the member's own state, without asking the leader
	leader       bool          // only while the member has a leader, as caches that fill themselves
	revision     int64         // to read at, 0: the newest
	spacing      time.Duration // from one request to the next at least
	class        string        // what requests are counted as, where not as their resource
}

// listed is what came of one.
type listed struct {
	revision int64
	objects  int64
	bytes    int64
}

// run is a whole turn: it reads them, and records each request and the whole.
func (l listing) run(ctx context.Context, t *loadgen.Turn, resource, prefix string) (listed, error) {
	all, err := l.read(ctx, t, resource, prefix)
	outcome := result.OK
	switch {
	case ctx.Err() != nil:
		outcome = result.Unfinished
	case err != nil:
		outcome = result.Failed
	}
	t.Observe("list", l.label(resource), outcome, all.bytes)
	if err == nil {
		t.Env().Count("objects_listed", all.objects)
	}
	return all, err
}

// read reads them, and records each request. Where the revision of the pages was
// compacted away it begins anew at the newest, and counts that: in one answer, which no
// compaction can cut, as client-go does for reflectors (tools/pager/pager.go, list).
func (l listing) read(ctx context.Context, t *loadgen.Turn, resource, prefix string) (listed, error) {
	if l.leader {
		ctx = shape.WithLeader(ctx)
	}
	one := l.get
	if l.stream {
		one = l.streamed
	}
	all := listed{revision: l.revision}
	for from := prefix; ; {
		next := time.Now().Add(l.spacing)
		p, err := one(ctx, t, resource, shape.Page(prefix, from, l.page, all.revision))
		if paged := l.revision == 0 && all.revision != 0; paged && errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
			t.Env().Count("relists", 1)
			all, from, l.page = listed{}, prefix, 0
			_ = wait.For(ctx, time.Until(next))
			continue
		}
		if err != nil {
			return all, err
		}
		if all.revision == 0 { // which the further pages are of
			all.revision = p.revision
		}
		all.objects += p.objects
		all.bytes += p.bytes
		if !p.more {
			return all, nil
		}
		from = shape.Next(p.last)
		_ = wait.For(ctx, time.Until(next))
	}
}

// page is what came of one request.
type page struct {
	listed

	last string // key
	more bool   // there are keys behind it
}

// get reads a page by a Range, on the resource's connection, whatever it is
// counted as. That there is more is seen from the count, which etcd makes of all
// that is left.
func (l listing) get(ctx context.Context, t *loadgen.Turn, resource string, what shape.Read) (p page, err error) {
	err = t.Do(ctx, "range", l.label(resource), func(ctx context.Context, _ *clientv3.Client) (loadgen.Reply, error) {
		resp, err := l.relaxed(what).Send(ctx, t.Client(resource))
		if err != nil {
			return loadgen.Reply{}, err
		}
		p.add(resp.Kvs)
		p.revision, p.more = resp.Header.Revision, p.objects > 0 && p.objects < resp.Count
		return loadgen.Reply{Bytes: p.bytes}, nil
	})
	return p, err
}

// streamed reads a page as a stream. Its last chunk says whether there is more.
func (l listing) streamed(ctx context.Context, t *loadgen.Turn, resource string, what shape.Read) (p page, err error) {
	err = t.Do(ctx, "range_stream", l.label(resource), func(ctx context.Context, _ *clientv3.Client) (loadgen.Reply, error) {
		err := l.relaxed(what).SendStream(ctx, t.Client(resource), func(chunk *pb.RangeResponse) error {
			p.add(chunk.Kvs)
			p.more = chunk.More
			if chunk.Header != nil {
				p.revision = chunk.Header.Revision
			}
			return nil
		})
		return loadgen.Reply{Bytes: p.bytes}, err
	})
	return p, err
}

// label is what the requests are counted as.
func (l listing) label(resource string) string { return cmp.Or(l.class, resource) }

func (l listing) relaxed(r shape.Read) shape.Read {
	if l.serializable {
		r.Opts = append(r.Opts, clientv3.WithSerializable())
	}
	return r
}

func (p *page) add(kvs []*mvccpb.KeyValue) {
	p.objects += int64(len(kvs))
	for _, kv := range kvs {
		p.bytes += int64(len(kv.Key) + len(kv.Value))
	}
	if len(kvs) > 0 {
		p.last = string(kvs[len(kvs)-1].Key)
	}
}
