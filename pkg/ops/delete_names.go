package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/kube/keys"
)

// namesTold is how many names a note tells at most.
const namesTold = 5

// continued is how names go on behind a prefix that ends within one: team-1 is also
// what team-10 begins with.
type continued struct {
	folders []string // the first of them, as they are behind the prefix; "" for the one that ends with it
	count   int64    // of folders
	last    string
	exact   bool  // there is a key that is the prefix itself
	longer  int64 // keys that begin with it, and have no slash behind
}

// see takes in what a key has behind the prefix; keys come in their order.
func (c *continued) see(rest string) {
	name, _, folder := strings.Cut(rest, "/")
	switch {
	case !folder && rest == "":
		c.exact = true
	case !folder:
		c.longer++
	case c.count == 0 || name != c.last:
		if c.count++; len(c.folders) < namesTold {
			c.folders = append(c.folders, name)
		}
		c.last = name
	}
}

// note says what a prefix takes that may not be meant; empty where that is nothing.
func (c *continued) note(prefix string) string {
	begun := prefix[strings.LastIndexByte(prefix, '/')+1:]
	switch {
	case strings.HasSuffix(prefix, "/") || prefix == "":
	case c.count > 1 || (c.count == 1 && c.folders[0] != ""):
		var names []string
		for _, f := range c.folders {
			names = append(names, fmt.Sprintf("%q", begun+f+"/"))
		}
		return fmt.Sprintf("the prefix %q ends within a name, and takes what is below all that begin so: %s; one alone is meant by a slash at its end",
			prefix, andMore(names, c.count))
	case c.exact && c.longer > 0:
		return fmt.Sprintf("the prefix %q is a key, and takes %s besides whose names begin so", prefix, counted(int(c.longer), "key"))
	}
	return ""
}

// andMore lists the first names of so many.
func andMore(names []string, all int64) string {
	out := strings.Join(names, ", ")
	if more := all - int64(len(names)); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// DeleteNamespace is how many of the keys are objects in a namespace.
type DeleteNamespace struct {
	Name string `json:"name"`
	Keys int64  `json:"keys"`
}

// inNamespaces returns them by their keys, the most first.
func (s *survey) inNamespaces() []DeleteNamespace {
	out := []DeleteNamespace{}
	for name, n := range s.namespaces {
		out = append(out, DeleteNamespace{name, n})
	}
	slices.SortFunc(out, func(a, b DeleteNamespace) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// namespacesNote says in which namespaces objects go.
func (s *survey) namespacesNote() string {
	all := s.inNamespaces()
	if len(all) == 0 {
		return ""
	}
	var names []string
	for _, ns := range all[:min(namesTold, len(all))] {
		names = append(names, fmt.Sprintf("%s (%s)", ns.Name, counted(int(ns.Keys), "key")))
	}
	return fmt.Sprintf("objects go in %s: %s", counted(len(all), "namespace"), andMore(names, int64(len(all))))
}

// meant says which resources there are under a name like one that has no keys.
func (d *deletion) meant(ctx context.Context) (notes []string, err error) {
	if f := d.found; len(f.groups) > 0 || f.younger+f.ageless > 0 {
		return nil, nil
	}
	quorum, err := d.client.Quorum(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range d.opts.Select.Resources {
		for _, like := range keys.Meant(name) {
			other := d.opts.Select.Selection
			other.Resources = []string{like}
			var n int64
			for _, r := range other.Selector(d.opts.Layout).Ranges() {
				got, err := quorum.Get(ctx, r.From, clientv3.WithRange(r.End), clientv3.WithCountOnly())
				if err != nil {
					return nil, err
				}
				n += got.Count
			}
			if n > 0 {
				notes = append(notes, fmt.Sprintf("nothing is named %s; --resource %s has %s", name, like, counted(int(n), "key")))
			}
		}
	}
	return notes, nil
}
