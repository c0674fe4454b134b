package codec

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// Op says what became of a field.
type Op string

// What can become of a field. A list is Reordered where its elements have changed
// places only; Before and After then have the names of the elements.
const (
	Added     Op = "added"
	Removed   Op = "removed"
	Changed   Op = "changed"
	Reordered Op = "reordered"
)

// FieldChange is one difference between two objects. Before and After are trees as
// Object.Tree has them; of an Added field Before is nil, of a Removed one After.
type FieldChange struct {
	Op     Op   `json:"op"`
	Path   Path `json:"path"`
	Before any  `json:"before,omitempty"`
	After  any  `json:"after,omitempty"`
}

// DiffOptions is what a comparison leaves out.
type DiffOptions struct {
	Ignore     Ignore
	ShowValues bool // also what a Secret holds
}

// Diff returns what is different in two objects, field by field, in the order of
// the fields' names. Elements of lists are compared by name where they have one, as
// containers, conditions and ports do. What a Secret holds is masked, unless asked
// for; that it changed is told.
func Diff(before, after *Object, o DiffOptions) []FieldChange {
	d := differ{ignore: o.Ignore}
	d.maps(nil, before.Tree, after.Tree)
	if (before.Secret || after.Secret) && !o.ShowValues {
		for i := range d.changes {
			c := &d.changes[i]
			c.Before, c.After = mask(c.Path, c.Before), mask(c.Path, c.After)
		}
	}
	return d.changes
}

type differ struct {
	ignore  Ignore
	changes []FieldChange
}

func (d *differ) add(op Op, p Path, before, after any) {
	d.changes = append(d.changes, FieldChange{Op: op, Path: p, Before: before, After: after})
}

func (d *differ) maps(p Path, a, b map[string]any) {
	fields := slices.Sorted(maps.Keys(a))
	for field := range b {
		if _, both := a[field]; !both {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	for _, field := range fields {
		before, had := a[field]
		after, has := b[field]
		at := p.field(field)
		switch {
		case d.ignore.has(at):
		case !had:
			d.add(Added, at, nil, after)
		case !has:
			d.add(Removed, at, before, nil)
		default:
			d.values(at, before, after)
		}
	}
}

func (d *differ) values(p Path, a, b any) {
	if ma, ok := a.(map[string]any); ok {
		if mb, ok := b.(map[string]any); ok {
			d.maps(p, ma, mb)
			return
		}
	}
	if la, ok := a.([]any); ok {
		if lb, ok := b.([]any); ok {
			d.lists(p, la, lb)
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		d.add(Changed, p, a, b)
	}
}

func (d *differ) lists(p Path, a, b []any) {
	if key, ok := keyOf(a, b); ok {
		d.keyed(p, key, a, b)
		return
	}
	d.aligned(p, a, b)
}

// keys are the fields that elements of lists are known by, in the order in which
// they are tried: containers and volumes by name, conditions by type, mounts by
// their path, addresses by IP, container ports and service ports by number.
func listKeys() [9]string {
	return [...]string{"name", "uid", "type", "mountPath", "ip", "containerPort", "port", "key", "address"}
}

// keyOf finds the field that tells apart the elements of both lists.
func keyOf(a, b []any) (string, bool) {
	for _, key := range listKeys() {
		_, okA := byKey(key, a)
		_, okB := byKey(key, b)
		if okA && okB {
			return key, len(a)+len(b) > 0
		}
	}
	return "", false
}

// byKey returns where each element of a list is, or false if the field does not
// tell them apart.
func byKey(key string, list []any) (map[string]int, bool) {
	at := make(map[string]int, len(list))
	for i, e := range list {
		name, ok := nameOf(key, e)
		if _, twice := at[name]; !ok || twice {
			return nil, false
		}
		at[name] = i
	}
	return at, true
}

func nameOf(key string, element any) (string, bool) {
	m, _ := element.(map[string]any)
	switch v := m[key].(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

// keyed compares lists whose elements have names.
func (d *differ) keyed(p Path, key string, a, b []any) {
	inA, _ := byKey(key, a)
	inB, _ := byKey(key, b)
	var orderA, orderB []any // of the elements that both have
	for _, e := range a {
		name, _ := nameOf(key, e)
		at := p.named(key, name)
		if i, ok := inB[name]; ok {
			orderA = append(orderA, name)
			d.values(at, e, b[i])
		} else {
			d.add(Removed, at, e, nil)
		}
	}
	for _, e := range b {
		name, _ := nameOf(key, e)
		if _, ok := inA[name]; ok {
			orderB = append(orderB, name)
		} else {
			d.add(Added, p.named(key, name), nil, e)
		}
	}
	if !slices.Equal(orderA, orderB) {
		d.add(Reordered, p, orderA, orderB)
	}
}
