package k8s

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// How often API servers and those who elect a leader do what they do.
const (
	renewPeriod    = 2 * time.Second  // of the leader (leaderelection's RetryPeriod)
	standbyPeriod  = 2 * time.Second  // of those who would like to be
	standbyJitter  = 1.2              // of it, added (leaderelection.go, JitterFactor)
	identityPeriod = 10 * time.Second // controlplane/apiserver/server.go
	masterPeriod   = 10 * time.Second // controlplane/instance.go
	healthPeriod   = time.Second      // healthz and readyz ask once a second each at most (factory/etcd3.go)
	countPeriod    = time.Minute      // registry/store.go
	countJitter    = 1.2              // of it, added
	checkPeriod    = 5 * time.Minute  // consistency/checker.go
	checkJitter    = 0.5              // of it, added
)

// What requests are counted as that API servers make for each of their caches.
const (
	probes            = "probes"
	consistencyChecks = "consistency checks"
)

// election is a component of which one leads and two stand by.
type election struct {
	lease    object
	template *shape.Template
	id       shape.ID
}

// components elect a leader: Kubernetes' own, and the operators of a usual
// cluster.
func components() []string {
	return []string{"kube-controller-manager", "kube-scheduler", "cloud-controller-manager", "ebs-csi-aws-com-attacher",
		"ebs-csi-aws-com-provisioner", "cert-manager-controller", "cluster-autoscaler", "metrics-adapter-leader",
		"ingress-nginx-leader", "external-dns-controller"}
}

func elections(ctx context.Context, env *loadgen.Env) ([]loadgen.Actor, error) {
	prefix := env.Prefix + "/leases/kube-system/"
	var actors []loadgen.Actor
	var leases []*object
	var all []*election
	for i, name := range components() {
		e := &election{lease: object{key: prefix + name}, template: shape.ElectionLease(name), id: shape.ID{Object: i, Born: time.Now()}}
		leases, all = append(leases, &e.lease), append(all, e)
		actors = append(actors, loadgen.Actor{Name: "leader/" + name, APIServer: i, Schedule: loadgen.Schedule{Period: renewPeriod}, Act: e.renew})
		for s := range 2 {
			actors = append(actors, loadgen.Actor{Name: fmt.Sprintf("standby/%s/%d", name, s), APIServer: i + 1 + s,
				Schedule: loadgen.Schedule{Period: standbyPeriod, Jitter: standbyJitter},
				Act: func(ctx context.Context, t *loadgen.Turn) {
					_, _ = t.Get(ctx, "leases", shape.Get(prefix+name)) // recorded; nobody dies
				}})
		}
	}
	return actors, seed(ctx, env, "leases", prefix, "making leases", leases, func(i int) string { return all[i].value() })
}

func electionFigures() result.Names { return sends("txn", "leases").With(sends("range", "leases")) }

// renew writes the lease from what the leader knows of it, without reading it.
func (e *election) renew(ctx context.Context, t *loadgen.Turn) {
	e.lease.update(ctx, t, "leases", e.value(), 0)
}

func (e *election) value() string { return e.template.Value(e.id, time.Now()) }

// apiServer is what an API server does by itself.
type apiServer struct {
	number   int
	prefix   string
	ip, name string
	identity object
	masters  []*lent
	streams  bool // lists are streams, and pages otherwise
}

// lent is an object that a new lease of a few seconds stands behind at each write.
type lent struct {
	object

	connection string
	template   *shape.Template
	leases     *shape.Leases
	writes     int
}

func newAPIServer(env *loadgen.Env, i int) *apiServer {
	a := &apiServer{number: i, prefix: env.Prefix, ip: fmt.Sprintf("192.0.2.%d", 10+i), name: shape.APIServerName(i), streams: knowsStreams(env)}
	a.identity.key = a.prefix + "/leases/kube-system/" + a.name
	for _, m := range []*lent{
		{object: object{key: a.prefix + "/masterleases/" + a.ip}, connection: "masterleases", template: shape.MasterLease(a.ip)},
		{object: object{key: a.prefix + "/peerserverleases/" + a.name}, connection: "peerserverleases", template: shape.PeerLease(a.name)},
	} {
		m.leases = shape.NewLeases(env.ScaledTTL(shape.MasterLeaseTTL), shape.LeaseReuse, shape.LeaseObjects)
		a.masters = append(a.masters, m)
	}
	return a
}

// apiServerFigures are what can be measured of API servers, with what they do for each
// cache.
func apiServerFigures() result.Names {
	masters := []string{"masterleases", "peerserverleases"}
	return sends("txn", "leases").With(sends("txn", masters...)).With(sends("lease_grant", masters...)).With(sends("range", masters...)).
		With(sends("range_stream", "masterleases")).With(sends("range", "endpoints", "endpointslices", "health", "events", probes, consistencyChecks)).
		With(sends("range_stream", consistencyChecks)).With(counts("relists"))
}

// actors are its loops.
func (a *apiServer) actors() []loadgen.Actor {
	identity, id := shape.IdentityLease(a.name), shape.ID{Object: a.number, Born: time.Now()}
	read := func(resource string, r shape.Read) func(context.Context, *loadgen.Turn) {
		return func(ctx context.Context, t *loadgen.Turn) { _, _ = t.Get(ctx, resource, r) } // recorded
	}
	return []loadgen.Actor{
		a.actor("identity", loadgen.Schedule{Period: identityPeriod}, func(ctx context.Context, t *loadgen.Turn) {
			a.identity.update(ctx, t, "leases", identity.Value(id, time.Now()), 0)
		}),
		a.actor("masterlease", loadgen.Schedule{Period: masterPeriod}, a.heartbeat),
		a.actor("peerlease", loadgen.Schedule{Period: masterPeriod}, a.masters[1].renew),
		a.actor("healthz", loadgen.Schedule{Period: healthPeriod}, read("health", shape.Health(a.prefix+"/health"))),
		a.actor("readyz", loadgen.Schedule{Period: healthPeriod}, read("health", shape.Health(a.prefix+"/health"))),
		a.actor("count/events", loadgen.Schedule{Period: countPeriod, Jitter: countJitter}, read("events", shape.Count(a.prefix+"/events/"))),
	}
}

// cacheActors are what it does for each resource that it caches: it asks how many
// objects there are, of its cache, and compares the cache with etcd.
func (a *apiServer) cacheActors(cache *informer) []loadgen.Actor {
	size := loadgen.Schedule{Period: countPeriod, Jitter: countJitter}
	check := loadgen.Schedule{Period: checkPeriod, Jitter: checkJitter}
	return []loadgen.Actor{
		a.actor("size/"+cache.resource, size, func(ctx context.Context, t *loadgen.Turn) {
			_, _ = listing{class: probes}.get(ctx, t, cache.resource, cache.probe()) // recorded
		}),
		a.actor("check/"+cache.resource, check, func(ctx context.Context, t *loadgen.Turn) {
			how := listing{stream: a.streams, page: cachePage, revision: cache.refresh(ctx), class: consistencyChecks}
			_, _ = how.read(ctx, t, cache.resource, cache.prefix) // recorded
		}),
	}
}

func (a *apiServer) actor(name string, s loadgen.Schedule, act func(context.Context, *loadgen.Turn)) loadgen.Actor {
	return loadgen.Actor{Name: fmt.Sprintf("apiserver/%d/%s", a.number, name), APIServer: a.number, Schedule: s, Act: act}
}

// heartbeat is how an API server says that it is there, and learns who else is
// (reconcilers/lease.go): its own lease, all leases, and the Service "kubernetes".
func (a *apiServer) heartbeat(ctx context.Context, t *loadgen.Turn) {
	a.masters[0].renew(ctx, t)
	prefix := a.prefix + "/masterleases/"
	_, _ = listing{stream: a.streams}.read(ctx, t, "masterleases", prefix) // recorded
	for _, k := range []kind{{"endpoints", "services/endpoints"}, {"endpointslices", "endpointslices"}} {
		_, _ = t.Get(ctx, k.resource, shape.Get(a.prefix+"/"+k.stored+"/default/kubernetes")) // recorded
	}
}

// renew reads the object, as it is not cached, and writes it with a new lease.
func (l *lent) renew(ctx context.Context, t *loadgen.Turn) {
	l.read(ctx, t, l.connection)
	lease, err := l.leases.Take(time.Now(), func(ttl int64) (clientv3.LeaseID, error) { return t.Grant(ctx, l.connection, ttl) })
	if err != nil {
		return
	}
	l.writes++
	l.update(ctx, t, l.connection, l.template.Counted(shape.ID{}, time.Now(), l.writes), lease)
}
