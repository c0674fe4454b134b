// Package shape knows the requests that a Kubernetes API server sends to etcd,
// and the values in them: what compare, which options, which metadata, which
// bytes. It sends nothing and measures nothing.
//
// Requests are those of kube-apiserver 1.37 (k8s.io/apiserver v0.37.2,
// pkg/storage/etcd3), whose client for them is etcd's own
// (go.etcd.io/etcd/client/v3/kubernetes). A test replays every call of a recorded
// API server through this package and compares what arrives at etcd, byte by byte.
//
// Values are made from samples, see samples/README.md, in which names, UIDs and
// times are replaced by others of the same length, so that they stay what
// Kubernetes' own marshaller writes: a test decodes and encodes them with it.
package shape
