package drill

import (
	"bytes"
	"context"
	"embed"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// objectFiles are values as kube-apiserver stores them: "k8s\0" and a protobuf
// runtime.Unknown around the object, with managedFields and everything.
//
//go:embed objects/*.pb
var objectFiles embed.FS

// Resources of the objects that a drill writes, as in the API.
const (
	resNodes     = "nodes"
	resLeases    = "leases"
	resPods      = "pods"
	resSlices    = "endpointslices"
	resEvents    = "events"
	resConfigs   = "configmaps"
	resSecrets   = "secrets"
	eventTTL     = 3660 // seconds: the apiserver's --event-ttl of 1 h and one minute of reuse
	leasePerObjs = 1000 // objects that the apiserver attaches to one lease at most (lease_manager.go)
)

// What stands in the embedded values and is replaced by a name of the same
// length, so that every length inside the protobuf stays true.
const (
	sampleNode  = "ip-10-0-123-45.eu-west-1.compute.internal"
	samplePod   = "payment-service-67cc84df8d-zj77m"
	sampleEvent = "payment-service-67cc84df8d-x2x7k"
	sampleSlice = "payment-service-pqxfz"
)

// sampleTime is every time stamp in the embedded values, in Unix seconds.
const sampleTime = 1795946400 // 2026-11-29T10:00:00Z

// object is one Kubernetes object: where it is, what it holds, and the revision
// at which it was last written, which the next update is conditional on.
type object struct {
	resource string
	key      string
	value    []byte // as made at sampleTime
	modRev   int64  // 0: does not exist yet
}

// valueAt returns the object's value as updated at t: every time stamp but that
// of its creation is t. A Timestamp's seconds take five bytes for any date of
// this century, so that the length stays.
func (o *object) valueAt(t time.Time) string {
	old, now := secondsField(sampleTime), secondsField(t.Unix())
	created := bytes.Index(o.value, old) + len(old)
	if created < len(old) || len(old) != len(now) {
		return string(o.value)
	}
	return string(o.value[:created]) + string(bytes.ReplaceAll(o.value[created:], old, now))
}

// secondsField is field 1 of a protobuf Timestamp: its tag and a varint.
func secondsField(unix int64) []byte {
	return binary.AppendUvarint([]byte{1 << 3}, uint64(unix))
}

// put is how kube-apiserver writes: on the condition that nobody else has since,
// and with the object as it is now in the answer otherwise. A create has no such
// answer.
func (o *object) put(ctx context.Context, etcd *clientv3.Client, value string, opts ...clientv3.OpOption) clientv3.Txn {
	txn := etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(o.key), "=", o.modRev)).
		Then(clientv3.OpPut(o.key, value, opts...))
	if o.modRev != 0 {
		txn = txn.Else(clientv3.OpGet(o.key))
	}
	return txn
}

// maker makes objects from the embedded values, the same ones for the same seed.
type maker struct {
	rnd    *rand.Rand
	values map[string][]byte
	serial int
}

func newMaker() (*maker, error) {
	m := &maker{rnd: rand.New(rand.NewPCG(1, 2)), values: map[string][]byte{}} //nolint:gosec // names, not secrets
	for _, name := range []string{"node-10img", "lease-node", "lease-leader-election", "event-pulled",
		"pod-simple-running", "endpointslice-10", "configmap-4KiB", "secret-tls"} {
		raw, err := objectFiles.ReadFile("objects/" + name + ".pb")
		if err != nil {
			return nil, err
		}
		m.values[name] = raw
	}
	return m, nil
}

// suffix is five characters as Kubernetes appends them to generated names.
func (m *maker) suffix() string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	for i := range b {
		b[i] = alphabet[m.rnd.IntN(len(alphabet))]
	}
	return string(b)
}

func (m *maker) renamed(file, from, to string) []byte {
	return bytes.ReplaceAll(m.values[file], []byte(from), []byte(to))
}

// nodeName returns the name of node i, as long as sampleNode; there are 13,500.
func nodeName(i int) string {
	return fmt.Sprintf("ip-10-0-%03d-%02d.eu-west-1.compute.internal", 100+i/90%150, 10+i%90)
}

func (m *maker) node(i int) *object {
	n := nodeName(i)
	return &object{resource: resNodes, key: "/registry/minions/" + n, value: m.renamed("node-10img", sampleNode, n)}
}

func (m *maker) nodeLease(i int) *object {
	n := nodeName(i)
	return &object{resource: resLeases, key: "/registry/leases/kube-node-lease/" + n, value: m.renamed("lease-node", sampleNode, n)}
}

// electionLease is what the controller manager that leads renews every 2 s.
func (m *maker) electionLease() *object {
	return &object{resource: resLeases, key: "/registry/leases/kube-system/kube-controller-manager", value: m.values["lease-leader-election"]}
}

func (m *maker) pod() *object {
	n := samplePod[:len(samplePod)-5] + m.suffix()
	return &object{resource: resPods, key: "/registry/pods/payments/" + n, value: m.renamed("pod-simple-running", samplePod, n)}
}

func (m *maker) slice() *object {
	n := sampleSlice[:len(sampleSlice)-5] + m.suffix()
	return &object{resource: resSlices, key: "/registry/endpointslices/payments/" + n, value: m.renamed("endpointslice-10", sampleSlice, n)}
}

// event is named after its pod and 16 hexadecimal digits, as client-go does.
func (m *maker) event() *object {
	m.serial++
	pod := sampleEvent[:len(sampleEvent)-5] + m.suffix()
	name := fmt.Sprintf("%s.18a2b3c4d%07x", pod, m.serial)
	value := bytes.ReplaceAll(m.values["event-pulled"], []byte(sampleEvent+".18a2b3c4d5e6f708"), []byte(name))
	return &object{resource: resEvents, key: "/registry/events/payments/" + name, value: bytes.ReplaceAll(value, []byte(sampleEvent), []byte(pod))}
}

func (m *maker) configMap(i int) *object {
	return &object{resource: resConfigs, key: fmt.Sprintf("/registry/configmaps/payments/settings-%03d", i), value: m.values["configmap-4KiB"]}
}

func (m *maker) secret(i int) *object {
	return &object{resource: resSecrets, key: fmt.Sprintf("/registry/secrets/payments/tls-%03d", i), value: m.values["secret-tls"]}
}
