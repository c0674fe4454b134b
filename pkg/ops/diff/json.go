package diff

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"kvd/pkg/ops/kube/codec"
)

// jsonEntry is an Entry as programs read it.
type jsonEntry struct {
	Key       *string `json:"key,omitempty"`
	KeyBase64 []byte  `json:"key_base64,omitempty"` // instead, where it is not UTF-8
	Kind      Kind    `json:"kind"`
	Resource  string  `json:"resource,omitempty"`
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name,omitempty"`

	A *jsonState `json:"a,omitempty"`
	B *jsonState `json:"b,omitempty"`

	ValueChanged bool  `json:"value_changed,omitempty"`
	LeaseChanged bool  `json:"lease_changed,omitempty"`
	IgnoredOnly  bool  `json:"only_ignored_fields_changed,omitempty"`
	Writes       int64 `json:"writes,omitempty"`
	Lives        int64 `json:"lives,omitempty"`
	First        int64 `json:"first_revision,omitempty"`
	Last         int64 `json:"last_revision,omitempty"`

	Fields    []codec.FieldChange `json:"fields,omitempty"`
	Opaque    string              `json:"fields_unknown,omitempty"`
	Rewritten string              `json:"same_fields_written,omitempty"`
	Majority  string              `json:"majority,omitempty"`
}

type jsonState struct {
	*State
	Lease  string  `json:"lease,omitempty"` // hex
	Text   *string `json:"value,omitempty"`
	Base64 []byte  `json:"value_base64,omitempty"`
}

// MarshalJSON writes keys and values so that nothing of them is lost. Values are
// written where Entry.ShowValues is set.
func (e *Entry) MarshalJSON() ([]byte, error) {
	out := jsonEntry{Kind: e.Kind, A: e.jsonState(e.A), B: e.jsonState(e.B), ValueChanged: e.ValueChanged, LeaseChanged: e.LeaseChanged,
		IgnoredOnly: e.IgnoredOnly, Writes: e.Writes, Lives: e.Lives, First: e.First, Last: e.Last, Fields: e.Fields, Opaque: e.Opaque, Rewritten: e.Rewritten, Majority: e.Majority}
	out.Key, out.KeyBase64 = text(e.Key)
	if e.Object != nil && out.Key != nil {
		out.Resource, out.Namespace, out.Name = e.Object.GroupResource(), e.Object.Namespace, e.Object.Name
	}
	return json.Marshal(out)
}

func (e *Entry) jsonState(s *State) *jsonState {
	if s == nil {
		return nil
	}
	out := &jsonState{State: s}
	if s.Lease != 0 {
		out.Lease = strconv.FormatUint(uint64(s.Lease), 16) //nolint:gosec // the bits, as etcdctl shows them
	}
	if e.ShowValues {
		out.Text, out.Base64 = text(s.Value)
	}
	return out
}

// text returns bytes as text, or, where they are not UTF-8, as they are.
func text(b []byte) (*string, []byte) {
	if utf8.Valid(b) {
		return new(string(b)), nil
	}
	return nil, b
}
