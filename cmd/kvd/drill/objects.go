package drill

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen/shape"
)

// Resources of the objects that a drill writes, as in the API.
const (
	resNodes   = "nodes"
	resLeases  = "leases"
	resPods    = "pods"
	resSlices  = "endpointslices"
	resEvents  = "events"
	resConfigs = "configmaps"
	resSecrets = "secrets"
)

// object is one Kubernetes object: where it is, what it holds as updated at a
// time, and the revision at which it was last written, which the next update is
// conditional on.
type object struct {
	resource string
	key      string
	valueAt  func(time.Time) string
	modRev   int64 // 0: does not exist yet
}

// put is how kube-apiserver writes: on the condition that nobody else has since,
// and with the object as it is now in the answer otherwise. A create has no such
// answer.
func (o *object) put(value string, lease clientv3.LeaseID) shape.Txn {
	if o.modRev == 0 {
		return shape.Create(o.key, value, lease)
	}
	return shape.Update(o.key, value, o.modRev, lease)
}

// maker makes objects of which each is another, the same ones each time. It is for
// one goroutine.
type maker struct {
	node, nodeLease, election, pod, event, config, secret *shape.Template

	born time.Time
	pods int
}

// What the objects of a drill hold.
const (
	imagesOfNode   = 10
	endpointsOf    = 10 // a slice
	bytesOfConfig  = 4 << 10
	electedLeader  = "kube-controller-manager"
	registryPrefix = "/registry/" // that Kubernetes' objects are under
)

func newMaker() *maker {
	return &maker{
		node: shape.Node(imagesOfNode), nodeLease: shape.NodeLease(), election: shape.ElectionLease(electedLeader),
		pod: shape.Pods()[shape.Running], event: shape.Event("pulled"), config: shape.ConfigMap(bytesOfConfig), secret: shape.Secret(),
		born: time.Now(),
	}
}

func (m *maker) object(resource, key string, from *shape.Template, id shape.ID) *object {
	id.Born = m.born
	return &object{resource: resource, key: registryPrefix + key, valueAt: func(t time.Time) string { return from.Value(id, t) }}
}

// namespaced is the part of a key behind the resource.
func namespaced(name string) string { return shape.NamespaceName(0) + "/" + name }

func (m *maker) newNode(i int) *object {
	return m.object(resNodes, "minions/"+shape.NodeName(i), m.node, shape.ID{Node: i, Object: i})
}

func (m *maker) newNodeLease(i int) *object {
	return m.object(resLeases, "leases/kube-node-lease/"+shape.NodeName(i), m.nodeLease, shape.ID{Node: i, Object: i})
}

// newElection is what the controller manager that leads renews every 2 s.
func (m *maker) newElection(int) *object {
	return m.object(resLeases, "leases/kube-system/"+electedLeader, m.election, shape.ID{})
}

func (m *maker) newPod(i int) *object {
	return m.object(resPods, "pods/"+namespaced(shape.PodName(0, i)), m.pod, shape.ID{Object: i})
}

func (m *maker) newSlice(i int) *object {
	slice := shape.Slice(shape.ID{Object: i, Born: m.born}, endpointsOf)
	return &object{resource: resSlices, key: registryPrefix + "endpointslices/" + namespaced(shape.SliceName(0, i)), valueAt: slice.Value}
}

// newEvent is about a pod that nobody has heard of before.
func (m *maker) newEvent() *object {
	m.pods++
	id := shape.ID{Object: m.pods, Serial: m.born.UnixNano() + int64(m.pods)}
	return m.object(resEvents, "events/"+namespaced(shape.PodName(0, m.pods)+"."+shape.EventSerial(id.Serial)), m.event, id)
}

func (m *maker) newConfigMap(i int) *object {
	return m.object(resConfigs, "configmaps/"+namespaced(shape.AppName(i)), m.config, shape.ID{App: i})
}

func (m *maker) newSecret(i int) *object {
	return m.object(resSecrets, "secrets/"+namespaced(shape.AppName(i)), m.secret, shape.ID{App: i})
}
