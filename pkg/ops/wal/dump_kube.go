package wal

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"

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

const (
	protobufMagic = "k8s\x00"  // before a runtime.Unknown (apimachinery/pkg/runtime/generated.proto)
	encrypted     = "k8s:enc:" // before a provider's name, its version and its key's (apiserver, storage/value/encrypt)
	longestPrefix = 300        // of what stands before an encrypted value
	jsonHead      = 1 << 10    // of a JSON object, in which apiVersion and kind come first
)

// describe takes kind and version from a value as the API server stores it.
func (o *Object) describe(value []byte) {
	if rest, ok := bytes.CutPrefix(value, []byte(encrypted)); ok {
		o.Encrypted = encrypted + provider(rest[:min(len(rest), longestPrefix)])
		return
	}
	if rest, ok := bytes.CutPrefix(value, []byte(protobufMagic)); ok {
		var meta []byte
		walk(rest, func(protowire.Number, uint64) {}, func(num protowire.Number, v []byte) {
			if num == 1 {
				meta = v
			}
		})
		walk(meta, func(protowire.Number, uint64) {}, func(num protowire.Number, v []byte) {
			switch num {
			case 1:
				o.APIVersion = string(v)
			case 2:
				o.Kind = string(v)
			}
		})
		return
	}
	if bytes.HasPrefix(value, []byte("{")) {
		o.describeJSON(value[:min(len(value), jsonHead)])
	}
}

// provider returns NAME:VERSION:KEY of what stands before an encrypted value.
func provider(b []byte) string {
	end := 0
	for range 3 {
		i := bytes.IndexByte(b[end:], ':')
		if i < 0 {
			break
		}
		end += i + 1
	}
	return string(bytes.TrimSuffix(b[:end], []byte(":")))
}

// describeJSON reads names and strings from the front, until something else comes.
func (o *Object) describeJSON(head []byte) {
	d := json.NewDecoder(bytes.NewReader(head))
	if _, err := d.Token(); err != nil {
		return
	}
	for range 2 {
		name, err1 := d.Token()
		value, err2 := d.Token()
		s, ok := value.(string)
		if err1 != nil || err2 != nil || !ok {
			return
		}
		switch name {
		case "apiVersion":
			o.APIVersion = s
		case "kind":
			o.Kind = s
		}
	}
}
