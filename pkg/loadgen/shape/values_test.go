package shape

import (
	"bytes"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// codec returns Kubernetes' own codec.
func codec(t *testing.T) *protobuf.Serializer {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordv1.AddToScheme, discoveryv1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return protobuf.NewSerializer(scheme, scheme)
}

// roundTrip decodes a value with Kubernetes' codec and encodes it again, which
// must give the same bytes.
func roundTrip(t *testing.T, name, value string) (runtime.Object, metav1.Object) {
	t.Helper()
	c := codec(t)
	obj, _, err := c.Decode([]byte(value), nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var again bytes.Buffer
	if err := c.Encode(obj, &again); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if again.String() != value {
		t.Errorf("%s: Kubernetes writes other bytes: %d, ours are %d", name, again.Len(), len(value))
	}
	meta, ok := obj.(metav1.Object)
	if !ok {
		t.Fatalf("%s: %T has no metadata", name, obj)
	}
	if meta.GetResourceVersion() != "" || meta.GetSelfLink() != "" {
		t.Errorf("%s: resourceVersion %q is stored, which Kubernetes leaves out", name, meta.GetResourceVersion())
	}
	return obj, meta
}

// TestValues has Kubernetes read each kind of value, and write it again to the
// byte, with what makes an object's own.
func TestValues(t *testing.T) {
	id := ID{App: 42, Object: 7, Node: 99, Namespace: 3, Serial: 4711, Born: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	now := time.Date(2027, 1, 2, 3, 4, 5, 678912345, time.UTC)
	pods := Pods()
	type row struct {
		t         *Template
		size      int
		name      string
		namespace string
	}
	rows := map[string]row{
		"lease":      {NodeLease(), 570, NodeName(99), "kube-node-lease"},
		"election":   {ElectionLease("kube-controller-manager"), 429, "kube-controller-manager", "kube-system"},
		"election 2": {ElectionLease("kube-scheduler"), 420, "kube-scheduler", "kube-system"},
		"identity":   {IdentityLease(APIServerName(2)), 727, APIServerName(2), "kube-system"},
		"master":     {MasterLease("192.0.2.10"), 63, "", ""},
		"peer":       {PeerLease(APIServerName(2)), 140, "", ""},
		"node 50":    {Node(50), 16240, NodeName(99), ""},
		"node 10":    {Node(10), 7108, NodeName(99), ""},
		"created":    {pods[Created], 2089, PodName(42, 7), NamespaceName(3)},
		"bound":      {pods[Bound], 2170, PodName(42, 7), NamespaceName(3)},
		"creating":   {pods[Creating], 3463, PodName(42, 7), NamespaceName(3)},
		"running":    {pods[Running], 3756, PodName(42, 7), NamespaceName(3)},
		"deleting":   {pods[Terminating], 3768, PodName(42, 7), NamespaceName(3)},
		"terminated": {pods[Terminated], 3876, PodName(42, 7), NamespaceName(3)},
		"started":    {Event("started"), 710, PodName(42, 7) + "." + EventSerial(4711), NamespaceName(3)},
		"pulled":     {Event("pulled"), 835, PodName(42, 7) + "." + EventSerial(4711), NamespaceName(3)},
		"unplaced":   {Event("failedscheduling"), 958, PodName(42, 7) + "." + EventSerial(4711), NamespaceName(3)},
		"replicaset": {ReplicaSet(), 2165, AppName(42) + "-67cc84df8d", NamespaceName(3)},
		"deployment": {Deployment(), 2401, AppName(42), NamespaceName(3)},
		"configmap":  {ConfigMap(1 << 20), 1048817, AppName(42), NamespaceName(3)},
		"secret":     {Secret(), 5576, AppName(42), NamespaceName(3)},
	}
	for what, r := range rows {
		value := r.t.Value(id, now)
		obj, meta := roundTrip(t, what, value)
		if len(value) != r.size {
			t.Errorf("%s: %d bytes, want %d", what, len(value), r.size)
		}
		if meta.GetName() != r.name || meta.GetNamespace() != r.namespace {
			t.Errorf("%s: is %q in %q, want %q in %q", what, meta.GetName(), meta.GetNamespace(), r.name, r.namespace)
		}
		if r.name == "" {
			continue // what stands under the leases of API servers has no metadata
		}
		if string(meta.GetUID()) != UID("object", 42, 7) || !meta.GetCreationTimestamp().Time.Equal(id.Born) {
			t.Errorf("%s: UID %s, created %v", what, meta.GetUID(), meta.GetCreationTimestamp())
		}
		for _, m := range meta.GetManagedFields() {
			if m.Time != nil && !m.Time.Time.Equal(now.Truncate(time.Second)) {
				t.Errorf("%s: managed at %v", what, m.Time)
			}
		}
		if other := r.t.Value(ID{App: 1, Object: 2, Node: 3, Namespace: 4, Born: now}, now.Add(time.Hour)); len(other) != len(value) || other == value {
			t.Errorf("%s: another object has %d bytes", what, len(other))
		}
		if lease, ok := obj.(*coordv1.Lease); ok && lease.Spec.RenewTime.Time.Unix() != now.Unix() {
			t.Errorf("%s: renewed at %v", what, lease.Spec.RenewTime)
		}
	}
}

// TestCounted has what counts written again and again, within its one byte.
func TestCounted(t *testing.T) {
	event, master := Event("pulled"), MasterLease("192.0.2.10")
	for n, want := range map[int]int{0: 1, 1: 1, 2: 2, 127: 127, 128: 1} {
		obj, _ := roundTrip(t, "event", event.Counted(ID{}, time.Now(), n))
		if e, ok := obj.(*corev1.Event); !ok || int(e.Count) != want {
			t.Errorf("event %d: %v", n, obj)
		}
		if _, meta := roundTrip(t, "master lease", master.Counted(ID{}, time.Now(), n)); int(meta.GetGeneration()) != want {
			t.Errorf("master lease %d: generation %d", n, meta.GetGeneration())
		}
	}
}

// TestSets has lists of endpoints as long as asked, each with its own pods, and
// changed in one place.
func TestSets(t *testing.T) {
	id := ID{App: 5, Namespace: 9, Born: time.Unix(1795000000, 0)}
	for _, n := range []int{0, 1, 100, MaxEndpoints} {
		s := Endpoints(id, n)
		obj, meta := roundTrip(t, "endpoints", s.Value(time.Now()))
		e, ok := obj.(*corev1.Endpoints)
		if !ok || meta.GetName() != AppName(5) || meta.GetNamespace() != NamespaceName(9) || s.Len() != n || len(e.Subsets[0].Addresses) != n {
			t.Fatalf("endpoints of %d: %d in %s of %s", n, s.Len(), meta.GetName(), meta.GetNamespace())
		}
		seen := map[string]bool{}
		for i, a := range e.Subsets[0].Addresses {
			if seen[a.IP] || a.TargetRef.Name != PodName(5, i) || string(a.TargetRef.UID) != UID("object", 5, i) {
				t.Fatalf("endpoints of %d: address %d is %v", n, i, a)
			}
			seen[a.IP] = true
		}
	}
	slice := Slice(ID{App: 5, Object: 3, Namespace: 9, Born: id.Born}, MaxSlice)
	now := time.Unix(1795900000, 0)
	before := slice.Value(now)
	slice.Replace(17, 4711)
	after := slice.Value(now.Add(time.Second))
	obj, meta := roundTrip(t, "slice", after)
	es, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok || meta.GetName() != SliceName(5, 3) || len(es.Endpoints) != MaxSlice || es.Endpoints[17].TargetRef.Name != PodName(5, 4711) ||
		es.Endpoints[18].TargetRef.Name != PodName(5, 318) {
		t.Errorf("slice %s: %v", meta.GetName(), es)
	}
	if got := meta.GetAnnotations()["endpoints.kubernetes.io/last-change-trigger-time"]; got != "2026-11-28T21:06:41Z" {
		t.Errorf("triggered at %s", got)
	}
	changed := 0
	for i := range before {
		if before[i] != after[i] {
			changed++
		}
	}
	if len(before) != len(after) || changed > 50 {
		t.Errorf("one endpoint of a slice changed %d bytes of %d", changed, len(after))
	}
	if e, s := len(Endpoints(id, MaxEndpoints).Value(now)), len(after); e < 155_000 || e > 159_000 || s < 18_000 || s > 18_500 {
		t.Errorf("Endpoints of 1000 have %d bytes, a slice of 100 %d", e, s)
	}
}

// TestEnvelope holds what stands around our objects against what stood around
// those of the same kind that the recorded API server wrote.
func TestEnvelope(t *testing.T) {
	around := func(value string) (kind, end string) {
		raw := find([]byte(value)[len(envelope):], path{2})
		return value[:len(envelope)+raw[0].from-len(protowire.AppendVarint(nil, uint64(raw[0].to-raw[0].from)))], value[len(envelope)+raw[0].to:]
	}
	recorded := map[string]string{}
	for _, c := range readCalls(t) {
		if c.method != "/etcdserverpb.KV/Txn" {
			continue
		}
		if v := string(decode(t, c.requests[0], &pb.TxnRequest{}).Success[0].GetRequestPut().GetValue()); strings.HasPrefix(v, envelope) {
			kind, end := around(v)
			recorded[kind] = end
		}
	}
	known := 0
	for _, tmpl := range append(Pods(), NodeLease(), MasterLease("192.0.2.10"), PeerLease(APIServerName(0)), Node(50), Event("pulled"), Deployment(), ConfigMap(10), Secret()) {
		kind, end := around(tmpl.Value(ID{}, time.Now()))
		if want, ok := recorded[kind]; ok && end == want {
			known++
		} else {
			t.Errorf("an object in %q and %q, recorded %q", kind, end, want)
		}
	}
	if known != 14 || len(recorded) < 9 {
		t.Errorf("%d of %d recorded kinds", known, len(recorded))
	}
}
