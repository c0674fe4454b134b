package keyspace

import (
	"encoding/json"
	"unicode/utf8"

	"kvd/pkg/ops/kube/keys"
)

// Usage is what a key space holds, by group of keys and by namespace.
type Usage struct {
	Revision  int64       `json:"revision"` // everything was read at this revision
	Oldest    int64       `json:"oldest_revision"`
	Prefix    Name        `json:"-"` // only keys with this prefix were looked at
	Keys      int64       `json:"keys"`
	Listed    int64       `json:"keys_listed"`       // how many were listed by name: fewer than Keys where that would have been too much to read
	Live      Estimate    `json:"live_bytes"`        // what the live keys' records take, without pages
	InPages   Estimate    `json:"live_in_pages"`     // what they take in the file after a defragmentation
	Exact     bool        `json:"exact"`             // every value was read
	ReadBytes int64       `json:"read_bytes"`        // answers, keys and values together
	Requests  int64       `json:"requests"`          // requests it took
	Member    string      `json:"member"`            // who was read from
	Groups    []Group     `json:"groups"`            // by bytes, the largest first
	Spaces    []Space     `json:"namespaces"`        // of Kubernetes' objects; by bytes, the largest first
	Partial   bool        `json:"namespaces_capped"` // there were more namespaces than are kept apart
	Layout    keys.Layout `json:"-"`                 // where Kubernetes' objects are: as told, and as found
	Leased    []Leased    `json:"-"`                 // of the values that were read: which leases keys are on, 1000 of them at most
}

// Estimate is a number of bytes with its 95 % confidence interval: the truth
// lies within Error on either side. Error is 0 where everything was read.
type Estimate struct {
	Bytes float64
	Error float64
}

// MarshalJSON writes whole bytes.
func (e Estimate) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Bytes int64 `json:"bytes"`
		Error int64 `json:"error_bytes"`
	}{int64(e.Bytes + 0.5), int64(e.Error + 0.5)})
}

// Group is all keys of one Kubernetes resource, or with one prefix.
type Group struct {
	Prefix   Name     `json:"-"`
	Resource string   `json:"resource,omitempty"` // "pods", "policyreports.wgpolicyk8s.io"
	Keys     int64    `json:"keys"`               // exact, unless Loose
	Loose    bool     `json:"keys_estimated"`     // too many to list all, and keys of groups below this prefix may be among them
	Bytes    Estimate `json:"live_bytes"`
	Share    float64  `json:"share_ratio"` // of all live bytes
	Largest  int64    `json:"largest_bytes"`
	Sampled  int64    `json:"sampled_keys"`
	// History is how many older revisions of these keys are kept at least:
	// those of keys that were made after the oldest revision, which all are
	// kept, and one of each older key that was changed since.
	History int64 `json:"history_revisions_min"`
}

// Space is all objects in one namespace.
type Space struct {
	Namespace Name    `json:"-"`
	Keys      int64   `json:"keys"`       // an estimate unless all keys were listed
	Bytes     int64   `json:"live_bytes"` // an estimate unless Usage.Exact
	Share     float64 `json:"share_ratio"`
}

// Leased is a lease, and one of the keys that are on it.
type Leased struct {
	Lease int64
	Key   Name
	Keys  int64 // of those that were read
}

// Name is a key or a part of one: any bytes at all.
type Name string

// field returns how a name is written to JSON: as text under one name, or, where
// it is not UTF-8, in base64 under another.
func (n Name) field() (text *string, raw []byte) {
	if utf8.ValidString(string(n)) {
		return new(string(n)), nil
	}
	return nil, []byte(n)
}

// MarshalJSON adds the prefix: "prefix", or "prefix_base64" if it is not UTF-8.
func (g Group) MarshalJSON() ([]byte, error) {
	type plain Group
	text, raw := g.Prefix.field()
	return json.Marshal(struct {
		Text *string `json:"prefix,omitempty"`
		Raw  []byte  `json:"prefix_base64,omitempty"`
		plain
	}{text, raw, plain(g)})
}

// MarshalJSON adds the name: "namespace", or "namespace_base64".
func (s Space) MarshalJSON() ([]byte, error) {
	type plain Space
	text, raw := s.Namespace.field()
	return json.Marshal(struct {
		Text *string `json:"namespace,omitempty"`
		Raw  []byte  `json:"namespace_base64,omitempty"`
		plain
	}{text, raw, plain(s)})
}

// MarshalJSON adds the prefix that was looked at, if there was one.
func (u Usage) MarshalJSON() ([]byte, error) {
	type plain Usage
	out := struct {
		Text *string `json:"prefix,omitempty"`
		Raw  []byte  `json:"prefix_base64,omitempty"`
		plain
	}{plain: plain(u)}
	if u.Prefix != "" {
		out.Text, out.Raw = u.Prefix.field()
	}
	return json.Marshal(out)
}
