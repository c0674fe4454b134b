package codec

import (
	"encoding/base64"
	"fmt"
)

// lastApplied is where kubectl apply keeps a copy of all that it was given, the
// data of a Secret included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secret reports whether a leaf at a path of a Secret must not be shown.
func secret(p Path) bool {
	switch top := p[0].Field; top {
	case "apiVersion", "kind", "type", "immutable":
		return false
	case "metadata":
		return len(p) > 2 && p[1].Field == "annotations" && p[2].Field == lastApplied
	}
	return true // data, stringData; and what else there might be is not ours to show
}

// Masked returns the tree without what must not be shown, which is replaced by
// its size: "(masked, 24 bytes)".
func (o *Object) Masked() map[string]any {
	if !o.Secret || o.Tree == nil {
		return o.Tree
	}
	t, _ := mask(nil, o.Tree).(map[string]any)
	return t
}

// mask returns what stands at a path of a Secret, without what must not be shown.
func mask(p Path, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for field, inner := range v {
			out[field] = mask(p.field(field), inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = mask(p.index(i), inner)
		}
		return out
	case nil:
		return nil
	}
	if len(p) > 0 && secret(p) {
		return masked(v)
	}
	return v
}

func masked(v any) string {
	s, ok := v.(string)
	if !ok {
		return "(masked)"
	}
	n := len(s)
	if raw, err := base64.StdEncoding.DecodeString(s); err == nil {
		n = len(raw)
	}
	if n == 1 {
		return "(masked, 1 byte)"
	}
	return fmt.Sprintf("(masked, %d bytes)", n)
}
