package keyspace

import (
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
)

// Selection says which keys are meant: those that have all that is given. The zero
// value means all keys.
type Selection struct {
	Prefix     string   // keys that begin so
	Resources  []string // objects of any of these, as kubectl names them: "events", "policyreports.wgpolicyk8s.io"
	Namespaces []string // objects in any of these; not the namespaces' own objects
}

// String writes it as it is typed.
func (s Selection) String() string {
	var out []string
	if s.Prefix != "" {
		out = append(out, fmt.Sprintf("--prefix %q", s.Prefix))
	}
	for _, r := range s.Resources {
		out = append(out, "--resource "+r)
	}
	for _, n := range s.Namespaces {
		out = append(out, "--namespace "+n)
	}
	return strings.Join(out, " ")
}

// Objects reports that only objects of Kubernetes are meant.
func (s Selection) Objects() bool { return len(s.Resources)+len(s.Namespaces) > 0 }

// Check finds names that can be none. The error is of kind fault.Usage.
func (s Selection) Check(op string) error {
	for _, r := range s.Resources {
		if _, _, ok := keys.Resource(r); !ok {
			return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Subject: "--resource " + r,
				Msg: "this is no name of a resource", Hint: "want the plural, with the group of a custom resource: events, policyreports.wgpolicyk8s.io"}
		}
	}
	for _, n := range s.Namespaces {
		if n == "" || strings.Contains(n, "/") {
			return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Subject: fmt.Sprintf("--namespace %q", n), Msg: "this is no name of a namespace"}
		}
	}
	return nil
}

// Range is the keys in [From, End), as a Query has them.
type Range struct{ From, End string }

// PrefixRange returns the range of the keys that begin with a prefix.
func PrefixRange(prefix string) Range {
	end := prefixEnd(prefix)
	if end == allEnd {
		end = ""
	}
	return Range{prefix, end}
}

// And returns what two ranges have in common; it is false where that is nothing.
func (r Range) And(o Range) (Range, bool) {
	out := Range{max(r.From, o.From), r.End}
	if out.End == "" || (o.End != "" && o.End < out.End) {
		out.End = o.End
	}
	return out, out.End == "" || out.From < out.End
}

// Selector tells the keys of a selection.
type Selector struct {
	layout     keys.Layout
	ranges     []Range
	namespaces []string
	resources  []string
}

// Selector prepares a selection that Check has nothing against.
func (s Selection) Selector(l keys.Layout) Selector {
	out := Selector{layout: l, namespaces: s.Namespaces}
	var ranges []Range
	for _, r := range s.Resources {
		resource, group, _ := keys.Resource(r)
		k := keys.Key{Group: group, Resource: resource}
		out.resources = append(out.resources, k.GroupResource())
		for _, k.Prefix = range l.Prefixes {
			ranges = append(ranges, within(k.ResourcePrefix(), s.Namespaces)...)
		}
	}
	if len(s.Resources) == 0 && s.Objects() {
		for _, root := range l.Prefixes {
			ranges = append(ranges, PrefixRange(root+"/"))
		}
	}
	if !s.Objects() {
		ranges = []Range{{From: "\x00"}} // no key is smaller
	}
	for i := 0; i < len(ranges); i++ {
		var ok bool
		if ranges[i], ok = ranges[i].And(PrefixRange(s.Prefix)); !ok {
			ranges = slices.Delete(ranges, i, i+1)
			i--
		}
	}
	out.ranges = ordered(ranges)
	return out
}

// within returns the ranges of a resource's objects, of those in some namespaces if
// any are given.
func within(resourcePrefix string, namespaces []string) []Range {
	if len(namespaces) == 0 {
		return []Range{PrefixRange(resourcePrefix)}
	}
	var out []Range
	for _, n := range namespaces {
		out = append(out, PrefixRange(resourcePrefix+n+"/"))
	}
	return out
}

// ordered sorts ranges and drops those that lie in another, as two of prefixes do
// that meet at all.
func ordered(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int { return strings.Compare(a.From, b.From) })
	var out []Range
	for _, r := range ranges {
		if n := len(out); n > 0 && (out[n-1].End == "" || r.From < out[n-1].End) {
			continue
		}
		out = append(out, r)
	}
	return out
}

// Ranges returns where the selected keys are, in order and apart from each other;
// not every key in them is selected.
func (s Selector) Ranges() []Range { return s.ranges }

// Has reports whether a key in one of the ranges is selected.
func (s Selector) Has(key string) bool {
	if len(s.namespaces)+len(s.resources) == 0 {
		return true
	}
	k, ok := s.layout.Parse(key)
	return ok && (len(s.namespaces) == 0 || slices.Contains(s.namespaces, k.Namespace)) &&
		(len(s.resources) == 0 || slices.Contains(s.resources, k.GroupResource()))
}
