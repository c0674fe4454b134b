package shape

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// NodeLease is the Lease that a kubelet renews: 570 bytes, of which renewing
// changes two times.
func NodeLease() *Template { return newTemplate(sample("lease-node"), path{2, 2, 4}) }

// ElectionLease is the Lease that the leader of a component renews.
func ElectionLease(component string) *Template {
	return newTemplate(renamed(sample("lease-leader-election"), component), path{2, 2, 4})
}

// IdentityLease is the Lease by which an API server, of a name by APIServerName,
// says that it is there.
func IdentityLease(name string) *Template {
	return newTemplate(asAPIServer(sample("lease-apiserver"), name), path{2, 2, 4})
}

// MasterLease is what an API server writes under /registry/masterleases: an
// Endpoints object whose generation counts the times.
func MasterLease(ip string) *Template {
	value := editValue(sample("masterlease"), path{2, 1, 7}, func([]byte) []byte { return []byte{1} })
	value = editValue(value, path{2, 2, 1, 1}, func([]byte) []byte { return []byte(ip) })
	return newTemplate(value).counting(2, 1, 7)
}

// PeerLease is MasterLease's pair under /registry/peerserverleases, by which API
// servers find each other.
func PeerLease(name string) *Template {
	return newTemplate(asAPIServer(sample("peerserverlease"), name)).counting(2, 1, 7)
}

// asAPIServer puts another name, of the same length, in place of the sample's.
func asAPIServer(value []byte, name string) []byte {
	return bytes.ReplaceAll(value, []byte("apiserver-6j3oqegojli76qwdruuv5vx3wu"), []byte(name))
}

// MaxImages is how many images a kubelet lists in its Node (nodeStatusMaxImages).
const MaxImages = 50

// Node is a Node that lists so many images, MaxImages at most: 16 kB with 50, of
// which a heartbeat changes about 100 bytes.
func Node(images int) *Template {
	n := 0
	value := editValue(sample("node-50img"), path{2, 3, 8}, func(image []byte) []byte {
		if n++; n > images {
			return nil
		}
		return image
	})
	return newTemplate(value, path{2, 3, 4, 3})
}

// Stage is how far a pod is in its life.
type Stage int

// The stages, and who writes them.
const (
	Created     Stage = iota // the ReplicaSet controller, 2.1 kB
	Bound                    // the scheduler
	Creating                 // the kubelet: the containers are being made
	Running                  // the kubelet: ready, 3.8 kB
	Terminating              // who deletes it: deletionTimestamp
	Terminated               // the kubelet: the containers have ended
	stages
)

// Pods returns the template of each stage of a pod with one container.
func Pods() []*Template {
	names := [...]string{"created", "bound", "containercreating", "running", "running", "running"}
	all := make([]*Template, stages)
	for i := range all {
		value := sample("pod-simple-" + names[i])
		if Stage(i) >= Terminating {
			value = withDeletion(value)
		}
		if Stage(i) == Terminated {
			value = withEnd(value)
		}
		t := newTemplate(value, path{2, 1, 9}, path{2, 3, 2, 4}, path{2, 3, 8, 2, 2, 1}, path{2, 3, 8, 2, 3, 6})
		t.created = append(t.created, t.timestamps(2, 3, 7)...) // startTime
		all[i] = t.withSuffix(t.text(2, 1, 1))
	}
	return all
}

// Event is an Event of a pod: "started", "pulled" or "failedscheduling". A repeat
// changes its count and its time.
func Event(reason string) *Template {
	t := newTemplate(sample("event-"+reason), path{2, 7}).counting(2, 8)
	return t.withSuffix(t.text(2, 2, 3))
}

// ReplicaSet and Deployment are written when what they count changes.
func ReplicaSet() *Template {
	value := renamed(sample("replicaset"), sampleApp+"-67cc84df8d")
	return newTemplate(inNamespace(value))
}

// Deployment is what owns a ReplicaSet.
func Deployment() *Template {
	value := renamed(sample("deployment"), sampleApp)
	return newTemplate(inNamespace(value), path{2, 3, 6, 6})
}

// ConfigMap holds so many bytes in one key.
func ConfigMap(size int) *Template {
	value := renamed(sample("configmap-4KiB"), sampleApp)
	value = editValue(inNamespace(value), path{2, 2, 2}, func([]byte) []byte { return bytes.Repeat([]byte{'x'}, size) })
	return newTemplate(value)
}

// Secret is a TLS certificate and its key, 5.6 kB.
func Secret() *Template { return newTemplate(inNamespace(renamed(sample("secret-tls"), sampleApp))) }

// renamed gives an object another name.
func renamed(value []byte, name string) []byte {
	return editValue(value, path{2, 1, 1}, func([]byte) []byte { return []byte(name) })
}

func inNamespace(value []byte) []byte {
	return editValue(value, path{2, 1, 3}, func([]byte) []byte { return []byte(sampleNS) })
}

// counting has Counted set the number at a path, which the sample has at less
// than 128.
func (t *Template) counting(at ...protowire.Number) *Template {
	if all := t.find(at...); len(all) > 0 {
		t.count = all[0].from
	}
	return t
}

// withDeletion adds what a graceful deletion does: when the pod is to be gone,
// and within how many seconds.
func withDeletion(pod []byte) []byte {
	return editValue(pod, path{2, 1}, func(meta []byte) []byte {
		meta = insert(meta, 9, messageField(9, numberField(1, sampleTime), numberField(2, 0)))
		return insert(meta, 10, numberField(10, 30))
	})
}

// sampleTime is when all that is in the samples happened, in Unix seconds.
const sampleTime = 1795946400

// withEnd has a pod's container ended, and the pod with it.
func withEnd(pod []byte) []byte {
	at := slices.Concat(numberField(1, sampleTime), numberField(2, 0))
	id := textField(7, "containerd://"+string(bytes.Repeat([]byte("0123456789abcdef"), 4)))
	ended := messageField(3, numberField(1, 0), numberField(2, 0), textField(3, "Completed"), textField(4, ""),
		messageField(5, at), messageField(6, at), id)
	pod = editValue(pod, path{2, 3, 8, 2}, func([]byte) []byte { return ended })
	pod = editValue(pod, path{2, 3, 8, 4}, func([]byte) []byte { return []byte{0} })
	pod = editValue(pod, path{2, 3, 8, 9}, func([]byte) []byte { return []byte{0} })
	return editValue(pod, path{2, 3, 1}, func([]byte) []byte { return []byte("Succeeded") })
}
