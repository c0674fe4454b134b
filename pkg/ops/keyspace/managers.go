package keyspace

import (
	"cmp"
	"slices"
)

// Manager is who changed an object, as its managedFields say: the field manager of
// the client that sent the write, most often its program's name.
type Manager struct {
	Manager     string `json:"manager"`
	Operation   string `json:"operation,omitempty"` // Update or Apply
	Subresource string `json:"subresource,omitempty"`
	Time        string `json:"time,omitempty"` // of the API server, to the second
}

// managers returns those whose entry in managedFields is new, or says more than it
// did, the latest first. An object without the field has none; nor has a write by
// the same manager to the same fields in the same second. An entry that only lost
// fields lost them to another manager.
func managers(before, now map[string]any) []Manager {
	old := map[Manager]map[string]any{}
	for _, e := range managedFields(before) {
		old[managerOf(e)] = e
	}
	var all []Manager
	for _, e := range managedFields(now) {
		m := managerOf(e)
		if was, ok := old[m]; !ok || !subset(e["fieldsV1"], was["fieldsV1"]) {
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b Manager) int { return cmp.Compare(b.Time, a.Time) })
	return all
}

func managerOf(entry map[string]any) Manager {
	text := func(field string) string { s, _ := entry[field].(string); return s }
	return Manager{text("manager"), text("operation"), text("subresource"), text("time")}
}

// subset reports whether a set of fields has none that another one lacks.
func subset(set, other any) bool {
	of, _ := other.(map[string]any)
	fields, _ := set.(map[string]any)
	for field, inner := range fields {
		there, ok := of[field]
		if !ok || !subset(inner, there) {
			return false
		}
	}
	return true
}

func managedFields(tree map[string]any) []map[string]any {
	meta, _ := tree["metadata"].(map[string]any)
	list, _ := meta["managedFields"].([]any)
	var all []map[string]any
	for _, e := range list {
		if m, ok := e.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}
