package codec

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	if holdsSecret(o.Tree) {
		return maskList(o.Tree)
	}
	t, _ := mask(nil, o.Tree).(map[string]any)
	return t
}

// items returns what a List holds, and whether all of it is of the kind Secret, which
// the items of a SecretList do not say.
func items(tree map[string]any) (of []any, secrets bool) {
	kind, _ := tree["kind"].(string)
	if strings.HasSuffix(kind, "List") {
		of, _ = tree["items"].([]any)
	}
	return of, kind == "SecretList"
}

// holdsSecret reports whether a Secret is among the items of a List, or of a List in it.
func holdsSecret(tree map[string]any) bool {
	of, secrets := items(tree)
	return len(of) > 0 && secrets || slices.ContainsFunc(of, func(item any) bool {
		object, _ := item.(map[string]any)
		return object["kind"] == "Secret" || holdsSecret(object)
	})
}

// maskList masks each Secret of a List by itself, and leaves the rest.
func maskList(tree map[string]any) map[string]any {
	of, secrets := items(tree)
	shown := make([]any, len(of))
	for i, item := range of {
		object, ok := item.(map[string]any)
		switch {
		case secrets, ok && object["kind"] == "Secret":
			shown[i] = mask(nil, item)
		case ok && holdsSecret(object):
			shown[i] = maskList(object)
		default:
			shown[i] = item
		}
	}
	out := maps.Clone(tree)
	out["items"] = shown
	// what kubectl apply was given is a copy of all items
	if meta, ok := tree["metadata"]; ok {
		out["metadata"] = mask(Path{}.field("metadata"), meta)
	}
	return out
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
