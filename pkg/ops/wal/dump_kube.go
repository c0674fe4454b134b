package wal

import (
	"kvd/pkg/ops/kube/envelope"
	"kvd/pkg/ops/kube/keys"
)

// Object is what a key of Kubernetes names, and what its value says it is.
type Object struct {
	Resource   string `json:"resource"` // "pods", "widgets.example.com"
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"` // none for a range over a resource
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"api_version,omitempty"`
	Encrypted  string `json:"encrypted,omitempty"` // how, where the API server encrypts: "k8s:enc:aescbc:v1:key1"
}

// objectOf names what a key stands for, or nil if it is none of Kubernetes'. Of
// a range only its resource is known.
func objectOf(l keys.Layout, key []byte, isRange bool) *Object {
	if len(key) == 0 || key[0] != '/' {
		return nil
	}
	s := string(key)
	k, ok := l.Parse(s)
	if !ok || isRange {
		prefix, found := l.ResourcePrefix(s)
		if !found {
			return nil
		}
		if k, ok = l.Parse(prefix + "x"); !ok {
			return nil
		}
		return &Object{Resource: k.GroupResource()}
	}
	return &Object{Resource: k.GroupResource(), Namespace: k.Namespace, Name: k.Name}
}

// describe takes kind and version from a value as the API server stores it.
func (o *Object) describe(value []byte) {
	head, _ := envelope.Read(value)
	o.APIVersion, o.Kind = head.APIVersion, head.Kind
	if head.Encryption != nil {
		o.Encrypted = head.Encryption.Prefix()
	}
}
