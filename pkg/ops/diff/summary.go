package diff

import (
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxGroups bounds how many groups of keys are kept apart; what does not fit is
// counted under "(others)".
const maxGroups = 10_000

const (
	others        = "(others)"
	clusterScoped = "(no namespace)"
)

// Summary counts what differs.
type Summary struct {
	Total  Counts  `json:"total"`
	Groups []Group `json:"groups"` // sorted by Finish

	byName map[string]*Group
}

// By is what keys are counted by.
type By string

// What keys can be counted by. Those that are no objects of Kubernetes are counted
// by their first segment.
const (
	ByResource  By = "resource"
	ByNamespace By = "namespace"
)

// Group is all keys of one resource or namespace, or with the same first segment.
type Group struct {
	Name string `json:"name"`
	Counts
}

// Counts is a number of keys of each kind, and what their values take.
type Counts struct {
	Added     int64 `json:"added"`
	Removed   int64 `json:"removed"`
	Changed   int64 `json:"changed"`
	Recreated int64 `json:"recreated"`
	Leased    int64 `json:"lease_changed"`
	Touched   int64 `json:"touched"`
	Transient int64 `json:"transient"`
	BytesA    int64 `json:"value_bytes_a"` // of the keys that differ
	BytesB    int64 `json:"value_bytes_b"`
}

// Of returns the number of a kind.
func (c *Counts) Of(k Kind) int64 { return *c.of(k) }

func (c *Counts) of(k Kind) *int64 {
	switch k {
	case Added:
		return &c.Added
	case Removed:
		return &c.Removed
	case Changed:
		return &c.Changed
	case Recreated:
		return &c.Recreated
	case Leased:
		return &c.Leased
	case Touched:
		return &c.Touched
	}
	return &c.Transient
}

// Keys returns how many keys differ.
func (c *Counts) Keys() int64 {
	return c.Added + c.Removed + c.Changed + c.Recreated + c.Leased + c.Touched + c.Transient
}

func (c *Counts) add(e *Entry) {
	*c.of(e.Kind)++
	if e.A != nil {
		c.BytesA += e.A.ValueBytes
	}
	if e.B != nil {
		c.BytesB += e.B.ValueBytes
	}
}

func newSummary() *Summary { return &Summary{byName: map[string]*Group{}} }

func (s *Summary) add(e *Entry, o Options) {
	s.Total.add(e)
	name := groupName(e, o)
	if !utf8.ValidString(name) {
		name = strconv.QuoteToASCII(name)
	}
	if s.byName[name] == nil && len(s.byName) >= maxGroups {
		name = others
	}
	g := s.byName[name]
	if g == nil {
		g = &Group{Name: name}
		s.byName[name] = g
	}
	g.add(e)
}

func groupName(e *Entry, o Options) string {
	switch {
	case e.Object != nil && o.By == ByNamespace && e.Object.Namespace == "":
		return clusterScoped
	case e.Object != nil && o.By == ByNamespace:
		return e.Object.Namespace
	case e.Object != nil:
		return e.Object.GroupResource()
	}
	if p, ok := o.Layout.ResourcePrefix(string(e.Key)); ok {
		return p
	}
	for i, c := range e.Key {
		if c == '/' && i > 0 {
			return string(e.Key[:i+1])
		}
	}
	return string(e.Key)
}

// Finish fills in Groups: those with the most keys first.
func (s *Summary) Finish() {
	s.Groups = []Group{}
	for _, g := range s.byName {
		s.Groups = append(s.Groups, *g)
	}
	slices.SortFunc(s.Groups, func(a, b Group) int { return cmp.Or(cmp.Compare(b.Keys(), a.Keys()), cmp.Compare(a.Name, b.Name)) })
}
