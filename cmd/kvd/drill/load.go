package drill

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"kvd/pkg/loadgen/shape"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wait"
)

// load fills a cluster the way Kubernetes does: objects that live, and updates
// of them, whose history piles up until somebody compacts it.
type load struct {
	actors  []*actor
	shares  int // sum of the actors'
	members []*cluster.MemberClient

	eventMu   sync.Mutex // new Events and their lease are asked for by all writers
	lease     clientv3.LeaseID
	leaseLeft int

	acked func(*object) // told of each acknowledged write; may be nil

	writes, bytes atomic.Int64
	full          atomic.Bool
	firstRefusal  string // in etcd's words; set before full is
	refusedOnce   sync.Once
}

// actor is what writes one resource: the heartbeats of all kubelets, say. Each
// time it updates one of its objects, or makes a new one.
type actor struct {
	resource string
	share    int            // of all shares
	objects  []*object      // that there are from the beginning
	idle     chan *object   // of them, those that nobody is writing now
	fresh    func() *object // makes a new object instead

	writes, bytes atomic.Int64
}

// Objects for a quota of 16 MiB; with another quota there are more or fewer.
const (
	baseQuota   = 16 << 20
	baseNodes   = 40
	basePods    = 260
	baseSlices  = 40
	baseConfigs = 30
	baseSecrets = 30
)

// Shares of the writes, in percent: nodes that report their whole status with
// their heartbeats, as before Kubernetes 1.14, beside their Leases; pods that
// change; an Event for every eighth write.
const (
	shareLeases   = 40
	shareNodes    = 24
	sharePods     = 15
	shareEvents   = 12
	shareSlices   = 7
	shareElection = 2
)

// writersPerMember is how many requests are under way through each member, so
// that the leader has something to batch.
const writersPerMember = 6

// newLoad makes the objects for a cluster with this quota.
func newLoad(quota int64, members []*cluster.MemberClient) *load {
	m := newMaker()
	l := &load{members: members}
	scaled := func(n int64) int { return int(max(2, n*quota/baseQuota)) }
	l.add(resNodes, shareNodes, scaled(baseNodes), m.newNode)
	l.add(resLeases, shareLeases, scaled(baseNodes), m.newNodeLease)
	l.add(resLeases, shareElection, 1, m.newElection)
	l.add(resPods, sharePods, scaled(basePods), m.newPod)
	l.add(resSlices, shareSlices, scaled(baseSlices), m.newSlice)
	l.add(resConfigs, 0, scaled(baseConfigs), m.newConfigMap)
	l.add(resSecrets, 0, scaled(baseSecrets), m.newSecret)
	l.add(resEvents, shareEvents, 0, nil)
	l.actors[len(l.actors)-1].fresh = m.newEvent
	return l
}

func (l *load) add(resource string, share, n int, newOne func(i int) *object) {
	a := &actor{resource: resource, share: share, idle: make(chan *object, n)}
	for i := range n {
		a.objects = append(a.objects, newOne(i))
	}
	l.actors = append(l.actors, a)
	l.shares += share
}

// create writes every object once.
func (l *load) create(ctx context.Context) error {
	type job struct {
		a *actor
		o *object
	}
	jobs := make(chan job)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(jobs)
		for _, a := range l.actors {
			for _, o := range a.objects {
				select {
				case jobs <- job{a, o}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	l.workers(g, func(m *cluster.MemberClient, _ *rand.Rand) error {
		for j := range jobs {
			if err := l.write(ctx, m, j.a, j.o, 0); err != nil {
				return err
			}
			j.a.idle <- j.o
		}
		return nil
	})
	return g.Wait()
}

// run updates objects until the first write is refused for want of space, or
// until there were enough.
func (l *load) run(ctx context.Context, enough func() bool) error {
	g, ctx := errgroup.WithContext(ctx)
	l.workers(g, func(m *cluster.MemberClient, rnd *rand.Rand) error {
		for !l.full.Load() && !enough() {
			if err := l.step(ctx, m, l.pick(rnd)); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

func (l *load) workers(g *errgroup.Group, work func(*cluster.MemberClient, *rand.Rand) error) {
	for w := range writersPerMember * len(l.members) {
		rnd := rand.New(rand.NewPCG(uint64(w), 3)) //nolint:gosec // which object is next is no secret
		g.Go(func() error { return work(l.members[w%len(l.members)], rnd) })
	}
}

func (l *load) pick(rnd *rand.Rand) *actor {
	n := rnd.IntN(l.shares)
	for _, a := range l.actors {
		if n -= a.share; n < 0 {
			return a
		}
	}
	return l.actors[0]
}

// step lets an actor write once. An actor all of whose objects are being written
// sits out.
func (l *load) step(ctx context.Context, m *cluster.MemberClient, a *actor) error {
	if a.fresh != nil {
		o, lease, err := l.event(ctx, m, a)
		if fault.KindOf(err) == fault.Unavailable {
			return wait.For(ctx, retryPause) // whoever writes next tries again
		}
		if err != nil || l.full.Load() {
			return err
		}
		return l.write(ctx, m, a, o, lease)
	}
	select {
	case o := <-a.idle:
		defer func() { a.idle <- o }()
		return l.write(ctx, m, a, o, 0)
	default:
		return nil
	}
}

// settle explains an error, or takes it for what everybody waits for: the first
// refusal for want of space, which ends the load.
func (l *load) settle(ctx context.Context, m *cluster.MemberClient, op string, err error) error {
	why := m.Explain(ctx, op, err)
	if fault.CauseOf(why) != cluster.CauseNoSpace {
		return why
	}
	l.refusedOnce.Do(func() {
		l.firstRefusal = err.Error()
		l.full.Store(true)
	})
	return nil
}

// event makes a new Event and names the lease it hangs on: one lease for up to
// a thousand, as kube-apiserver does it.
func (l *load) event(ctx context.Context, m *cluster.MemberClient, a *actor) (*object, clientv3.LeaseID, error) {
	l.eventMu.Lock()
	defer l.eventMu.Unlock()
	if l.leaseLeft == 0 {
		resp, err := m.Etcd().Grant(ctx, shape.EventTTL+shape.LeaseReuse)
		if err != nil {
			return nil, 0, l.settle(ctx, m, "lease grant", err)
		}
		l.lease, l.leaseLeft = resp.ID, shape.LeaseObjects
	}
	l.leaseLeft--
	return a.fresh(), l.lease, nil
}

// How a writer takes it when a member is slow or leadership moves: like
// kube-apiserver, it tries again.
const (
	retries    = 20
	retryPause = 250 * time.Millisecond
)

// write writes one object until it is written, or refused for want of space.
func (l *load) write(ctx context.Context, m *cluster.MemberClient, a *actor, o *object, lease clientv3.LeaseID) error {
	for try := 1; ; try++ {
		size, err := putOnce(ctx, m, o, lease)
		if err == nil {
			if size > 0 { // else an attempt whose answer was lost has written it
				l.writes.Add(1)
				l.bytes.Add(size)
				a.writes.Add(1)
				a.bytes.Add(size)
				if l.acked != nil {
					l.acked(o)
				}
			}
			return nil
		}
		if err = l.settle(ctx, m, "put", err); err == nil {
			return nil
		}
		if try == retries || fault.KindOf(err) != fault.Unavailable || wait.For(ctx, retryPause) != nil {
			return err
		}
	}
}

// putOnce writes an object through one member, as it is now, and returns the
// number of bytes: 0 where somebody else has written it since, whose revision is
// then known. Its errors are etcd's.
func putOnce(ctx context.Context, m *cluster.MemberClient, o *object, lease clientv3.LeaseID) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, cluster.DefaultCommandTimeout)
	defer cancel()
	value := o.valueAt(time.Now())
	resp, err := o.put(value, lease).Commit(ctx, m.Etcd())
	if err != nil {
		return 0, err
	}
	if resp.Succeeded {
		o.modRev = resp.Header.Revision
		return int64(len(o.key) + len(value)), nil
	}
	var now *clientv3.GetResponse
	if o.modRev != 0 {
		now = (*clientv3.GetResponse)(resp.Responses[0].GetResponseRange())
	} else if now, err = m.Etcd().Get(ctx, o.key); err != nil { // a create that fails is followed by a read
		return 0, err
	}
	if len(now.Kvs) == 1 {
		o.modRev = now.Kvs[0].ModRevision
	}
	return 0, nil
}

// leases are the Leases of the nodes.
func (l *load) leases() []*object {
	for _, a := range l.actors {
		if a.resource == resLeases {
			return a.objects
		}
	}
	return nil
}

// written sums up what was written, by resource.
func (l *load) written() []ResourceLoad {
	var out []ResourceLoad
	for _, a := range l.actors {
		n := ResourceLoad{Resource: a.resource, Objects: int64(len(a.objects)), Writes: a.writes.Load(), Bytes: a.bytes.Load()}
		if a.fresh != nil {
			n.Objects = n.Writes
		}
		if i := slices.IndexFunc(out, func(r ResourceLoad) bool { return r.Resource == a.resource }); i >= 0 {
			out[i].Objects += n.Objects
			out[i].Writes += n.Writes
			out[i].Bytes += n.Bytes
			continue
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b ResourceLoad) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}
