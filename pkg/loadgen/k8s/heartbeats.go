package k8s

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// How a kubelet says that its node lives.
const (
	ModeLease  = "lease"       // a small Lease, and the Node every five minutes
	ModeStatus = "node-status" // the whole Node each time, as before Kubernetes 1.14
)

// What a kubelet does by default (kubelet/apis/config/v1beta1/defaults.go,
// component-helpers/apimachinery/lease/controller.go).
const (
	heartbeatPeriod = 10 * time.Second // a quarter of the lease's 40 s
	heartbeatJitter = 0.04             // of the period, added
	leaseDuration   = 40 * time.Second
	statusPeriod    = 5 * time.Minute
	heartbeatTries  = 5 // at once, one after the other
)

// HeartbeatOptions are the knobs of k8s-heartbeats.
type HeartbeatOptions struct {
	Nodes        int
	Mode         string        // ModeLease or ModeStatus
	Period       time.Duration // from one heartbeat to the next
	StatusPeriod time.Duration // from one Node to the next, in ModeLease
	Images       int           // that each Node lists, shape.MaxImages at most
}

// DefaultHeartbeatOptions are Kubernetes' own.
func DefaultHeartbeatOptions() HeartbeatOptions {
	return HeartbeatOptions{Nodes: 100, Mode: ModeLease, Period: heartbeatPeriod, StatusPeriod: statusPeriod, Images: shape.MaxImages}
}

// Heartbeats is the load of kubelets that say that their nodes live.
type Heartbeats struct {
	HeartbeatOptions
}

// Name is that of the command.
func (*Heartbeats) Name() string { return "k8s-heartbeats" }

// Params are the knobs.
func (h *Heartbeats) Params() map[string]any {
	return map[string]any{"nodes": h.Nodes, "mode": h.Mode, "period_seconds": h.Period.Seconds(),
		"status_period_seconds": h.StatusPeriod.Seconds(), "images": h.Images}
}

// Figures are what can be measured of it.
func (h *Heartbeats) Figures() result.Names {
	judged := counts("late_heartbeats", "missed_heartbeats", "failed_heartbeats")
	if h.Mode == ModeStatus {
		return sends("txn", "nodes").With(judged)
	}
	return sends("txn", "leases", "nodes").With(sendsAfterConflict("leases")).With(judged)
}

// Check finds what is wrong with the knobs.
func (h *Heartbeats) Check() error {
	switch {
	case h.Nodes < 1 || h.Nodes > shape.MaxNodes:
		return badFlag(h, fmt.Sprintf("--nodes must be from 1 to %d, for which there are names", shape.MaxNodes))
	case h.Mode != ModeLease && h.Mode != ModeStatus:
		return badFlag(h, fmt.Sprintf("--mode %q: want %s or %s", h.Mode, ModeLease, ModeStatus))
	case h.Period <= 0 || h.StatusPeriod <= 0:
		return badFlag(h, "--period and --status-period must be more than 0")
	case h.Images < 0 || h.Images > shape.MaxImages:
		return badFlag(h, fmt.Sprintf("--images must be from 0 to %d, which is how many a kubelet lists", shape.MaxImages))
	}
	return nil
}

// kubelet is one node's.
type kubelet struct {
	h     *Heartbeats
	id    shape.ID
	lease object
	node  object
	small *shape.Template
	large *shape.Template
}

// Setup makes the Leases and Nodes that are not there yet.
func (h *Heartbeats) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := h.Check(); err != nil {
		return loadgen.Cast{}, err
	}
	leases, minions := env.Prefix+"/leases/kube-node-lease/", env.Prefix+"/minions/"
	small, large := shape.NodeLease(), shape.Node(h.Images)
	kubelets := make([]*kubelet, h.Nodes)
	var leaseObjects, nodeObjects []*object
	for i := range kubelets {
		k := &kubelet{h: h, id: shape.ID{Node: i, Object: i, Born: time.Now()}, small: small, large: large}
		name := shape.NodeName(i)
		k.lease.key, k.node.key = leases+name, minions+name
		kubelets[i], leaseObjects, nodeObjects = k, append(leaseObjects, &k.lease), append(nodeObjects, &k.node)
	}
	err := seed(ctx, env, "nodes", minions, "making nodes", nodeObjects, func(i int) string { return large.Value(kubelets[i].id, time.Now()) })
	if err == nil && h.Mode == ModeLease {
		err = seed(ctx, env, "leases", leases, "making leases", leaseObjects, func(i int) string { return small.Value(kubelets[i].id, time.Now()) })
	}
	if err != nil {
		return loadgen.Cast{}, err
	}
	var cast loadgen.Cast
	for i, k := range kubelets {
		cast.Actors = append(cast.Actors, k.actors(i)...)
	}
	return cast, nil
}

// actors are the kubelet's loops: one that beats, and in ModeLease one that sends
// the Node.
func (k *kubelet) actors(i int) []loadgen.Actor {
	beat := loadgen.Actor{Name: "kubelet/" + shape.NodeName(i), APIServer: i, Schedule: loadgen.Schedule{Period: k.h.Period, Jitter: heartbeatJitter, Sliding: true}}
	if k.h.Mode == ModeStatus {
		beat.Act = k.judged(k.sendStatus)
		return []loadgen.Actor{beat}
	}
	beat.Act = k.judged(k.renew)
	status := loadgen.Actor{Name: "status/" + shape.NodeName(i), APIServer: i, Schedule: loadgen.Schedule{Period: k.h.StatusPeriod, Jitter: heartbeatJitter, Sliding: true},
		Act: func(ctx context.Context, t *loadgen.Turn) { k.sendStatus(ctx, t) }}
	return []loadgen.Actor{beat, status}
}

// judged counts the heartbeats that came late: after the next one was due, or
// after the Lease had run out.
func (k *kubelet) judged(beat func(context.Context, *loadgen.Turn) bool) func(context.Context, *loadgen.Turn) {
	return func(ctx context.Context, t *loadgen.Turn) {
		env := t.Env()
		if !beat(ctx, t) && ctx.Err() == nil {
			env.Count("failed_heartbeats", 1)
		}
		took := time.Since(t.Due)
		if took > env.Scaled(k.h.Period) {
			env.Count("late_heartbeats", 1)
		}
		if took > env.Scaled(leaseDuration) {
			env.Count("missed_heartbeats", 1)
		}
	}
}

// renew writes the Lease, which the kubelet has from its last answer. After a
// conflict it reads it; after an error it tries again at once.
func (k *kubelet) renew(ctx context.Context, t *loadgen.Turn) bool {
	for range heartbeatTries {
		resp, err := t.Txn(ctx, "leases", shape.Update(k.lease.key, k.small.Value(k.id, time.Now()), k.lease.revision, 0))
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			continue
		case resp.Succeeded:
			k.lease.took(resp)
			return true
		}
		if now, err := t.Get(ctx, "leases", shape.Get(k.lease.key)); err == nil {
			k.lease.found(now.Kvs)
		}
	}
	return false
}

// sendStatus writes the Node. It is the API server that tries again after a
// conflict here, with the object that came in the answer.
func (k *kubelet) sendStatus(ctx context.Context, t *loadgen.Turn) bool {
	for range heartbeatTries {
		resp, err := t.Txn(ctx, "nodes", shape.Update(k.node.key, k.large.Value(k.id, time.Now()), k.node.revision, 0))
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			continue
		}
		if k.node.took(resp); resp.Succeeded {
			return true
		}
	}
	return false
}
