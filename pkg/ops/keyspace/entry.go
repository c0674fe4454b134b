package keyspace

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
	"unicode/utf8"

	"kvd/pkg/ops/kube/codec"
	"kvd/pkg/ops/kube/envelope"
	"kvd/pkg/ops/kube/keys"
)

// Entry is a key as it is shown: etcd's numbers, what Kubernetes calls it, and,
// where the value was read, what that is.
type Entry struct {
	Key       Name   `json:"-"`
	Resource  string `json:"resource,omitempty"` // as kubectl names it: "pods", "widgets.example.com"
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`

	CreateRevision int64  `json:"create_revision"`
	ModRevision    int64  `json:"mod_revision"` // Kubernetes' resourceVersion
	Version        int64  `json:"version"`      // how many times it was put since it was created
	Lease          string `json:"lease,omitempty"`
	// Unread says that only names were read, from a member: what lease the key is
	// on, if any, is not known, nor is the size of its value.
	Unread bool `json:"record_not_read,omitempty"`

	ValueBytes *int64      `json:"value_bytes,omitempty"` // of a value that was read
	Value      *ValueShown `json:"value,omitempty"`       // of one that was decoded
}

// ValueShown is a value in the form in which it is shown.
type ValueShown struct {
	envelope.Head
	// Object is the decoded value, as the API would show it: its
	// metadata.resourceVersion, which is not stored, is the revision.
	Object map[string]any `json:"object,omitempty"`
	// Text and Bytes are a value that is no object: one of them, or none where it
	// is a secret.
	Text  *string `json:"text,omitempty"`
	Bytes []byte  `json:"bytes_base64,omitempty"`
	// Note says why there is no object, or only a part of it.
	Note   string `json:"note,omitempty"`
	Masked bool   `json:"masked,omitempty"` // values are left out: they are a Secret's
}

// MarshalJSON adds the key: "key", or "key_base64" if it is not UTF-8.
func (e Entry) MarshalJSON() ([]byte, error) {
	type plain Entry
	text, raw := e.Key.field()
	return json.Marshal(struct {
		Text *string `json:"key,omitempty"`
		Raw  []byte  `json:"key_base64,omitempty"`
		plain
	}{text, raw, plain(e)})
}

// Describer makes entries of items.
type Describer struct {
	Layout     keys.Layout
	Codec      *codec.Codec
	ShowValues bool // also those of Secrets
}

// Entry describes an item by its key alone.
func (d *Describer) Entry(it *Item) Entry {
	k, _ := d.Layout.Parse(string(it.Key))
	e := Entry{Key: Name(it.Key), Resource: k.GroupResource(), Namespace: k.Namespace, Name: k.Name,
		CreateRevision: it.CreateRevision, ModRevision: it.ModRevision, Version: it.Version, Unread: it.Size == 0}
	if it.Lease != 0 {
		e.Lease = hexID(it.Lease)
	}
	return e
}

// Decode describes an item and its value, which must have been read.
func (d *Describer) Decode(it *Item) Entry {
	e := d.Entry(it)
	e.ValueBytes = new(int64(len(it.Value)))
	o := d.decode(it)
	e.Value = d.shown(&o, it)
	return e
}

// decode decodes a value. Under a prefix that the layout does not know, a key that
// looks like a Secret's is taken for one.
func (d *Describer) decode(it *Item) codec.Object {
	k, ok := d.Layout.Parse(string(it.Key))
	resource := k.GroupResource()
	if !ok && bytes.Contains(it.Key, []byte("/secrets/")) {
		resource = "secrets"
	}
	return d.Codec.Decode(resource, it.Value)
}

func (d *Describer) shown(o *codec.Object, it *Item) *ValueShown {
	v := &ValueShown{Head: o.Head, Note: o.Problem, Masked: o.Secret && !d.ShowValues}
	switch {
	case o.Tree != nil:
		v.Object = o.Tree
		if v.Masked {
			v.Object = o.Masked()
		}
		if o.OfKubernetes() {
			v.Object = withVersion(v.Object, it.ModRevision)
		}
	case v.Masked:
		v.Note = addNote(v.Note, "not shown: it is stored among Secrets")
	case utf8.Valid(it.Value):
		v.Text = new(string(it.Value))
	default:
		v.Bytes = append([]byte{}, it.Value...)
	}
	return v
}

// withVersion returns an object as the API shows it, whose metadata has the
// resourceVersion that is not stored.
func withVersion(object map[string]any, revision int64) map[string]any {
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	object, meta = maps.Clone(object), maps.Clone(meta)
	meta["resourceVersion"] = strconv.FormatInt(revision, 10)
	object["metadata"] = meta
	return object
}

func addNote(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
