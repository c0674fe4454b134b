package keyspace

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
)

// maxParts bounds how many groups are kept apart.
const maxParts = 50_000

// groups adds up records by the groups that they are in.
type groups struct {
	o      BreakdownOptions
	list   []*node // the first one is all of them
	named  map[string]*node
	at     *node // that of the key before
	capped bool
	roots  map[string]bool // --etcd-prefixes that nobody has told, below which keys were none of Kubernetes'
}

// node is a group in the making.
type node struct {
	name     string
	index    uint32 // in the list
	depth    int
	parent   *node
	children []*node

	keys, live           int64
	revisions, history   int64
	tombstones, deleted  int64
	variance             float64 // of live, where it is an estimate: the square of the error
	largest, mostRevised candidate
}

// candidate is a key that may be one to name: n is what it is chosen by, and at and
// size say where in a file its record is, or key is the key itself.
type candidate struct {
	n, at, size int64
	key         string
}

// better puts the one in front that has more, and of equals one that does not
// depend on the order in which they came.
func (c candidate) better(d candidate) bool {
	if c.n != d.n {
		return c.n > d.n
	}
	return cmp.Or(cmp.Compare(c.at, d.at), strings.Compare(c.key, d.key)) < 0
}

func (c *candidate) offer(d candidate) {
	if d.better(*c) && d.n > 0 {
		*c = d
	}
}

func newGroups(o BreakdownOptions) *groups {
	return &groups{o: o, list: []*node{{}}, named: map[string]*node{}, roots: map[string]bool{}}
}

func (g *groups) root() *node { return g.list[0] }

// byRecord reports that a group depends on the record and not on the key alone.
func (o BreakdownOptions) byRecord() bool { return o.By == ByLease || o.By == ByKind }

// of returns the group of a record; lease and value are those of a put.
func (g *groups) of(key []byte, lease int64, value []byte) *node {
	switch g.o.By {
	case ByLease:
		return g.flat(leaseName(lease))
	case ByKind:
		return g.flat(kindName(value))
	case ByTree:
		g.at = g.branch(key)
		return g.at
	case ByPrefix:
		return g.flat(groupPrefix(g.o.Layout, string(key), g.o.Depth))
	}
	name := objectGroup(g.o.Layout, g.o.By, string(key))
	if name == string(GroupNoObject) {
		if root, ok := keys.PrefixOf(string(key)); ok {
			g.roots[root] = true
		}
	}
	return g.flat(name)
}

// unknown says below which prefixes there are objects of Kubernetes that were counted as
// none of it.
func (g *groups) unknown(op, subject string, sink progress.Sink) {
	if roots := slices.Sorted(maps.Keys(g.roots)); len(roots) > 0 {
		sink.Event(progress.Event{Op: op, Subject: subject, Warning: true,
			Note: "Kubernetes' objects lie below " + words(roots) + ", too, and are not counted as such: say so with --kube-prefix " + strings.Join(roots[:min(len(roots), 3)], ",")})
	}
}

// objectGroup is the group of a key by what Kubernetes has it for.
func objectGroup(l keys.Layout, by By, key string) string {
	k, ok := l.Parse(key)
	switch {
	case !ok:
		return string(GroupNoObject)
	case by == ByResource:
		return k.GroupResource()
	case k.Namespace == "":
		return string(GroupNoNamespace)
	}
	return k.Namespace
}

// flat finds or makes a group by its name.
func (g *groups) flat(name string) *node {
	if n, ok := g.named[name]; ok {
		return n
	}
	if len(g.list) > maxParts {
		g.capped = true
		name = string(GroupOther)
		if n, ok := g.named[name]; ok {
			return n
		}
	}
	return g.below(g.root(), name)
}

// branch finds or makes the deepest node of the tree that a key is below. It looks
// there at once, and else begins at that of the key before, since many keys have
// neighbours.
func (g *groups) branch(key []byte) *node {
	if n, ok := g.named[string(key[:segments(key, g.o.Depth)])]; ok && n.depth == g.o.Depth {
		return n
	}
	n := g.at
	if n == nil {
		n = g.root()
	}
	for n.parent != nil && !hasPrefix(key, n.name) {
		n = n.parent
	}
	for n.depth < g.o.Depth {
		end := segment(key, len(n.name))
		if end < 0 {
			break
		}
		child, ok := g.named[string(key[:end])]
		if !ok {
			if len(g.list) > maxParts {
				g.capped = true
				break
			}
			child = g.below(n, string(key[:end]))
		}
		n = child
	}
	return n
}

// segment returns where the segment ends that begins at from, behind its slash; -1
// where none does.
func segment(key []byte, from int) int {
	if from == 0 && len(key) > 0 && key[0] == '/' {
		from = 1 // a slash in front opens the first segment, it does not end one
	}
	i := bytes.IndexByte(key[from:], '/')
	if i < 0 {
		return -1
	}
	return from + i + 1
}

// segments returns where the first n segments of a key end, or as many as it has.
func segments(key []byte, n int) int {
	end := 0
	for range n {
		next := segment(key, end)
		if next < 0 {
			break
		}
		end = next
	}
	return end
}

func hasPrefix(key []byte, prefix string) bool {
	return len(key) >= len(prefix) && string(key[:len(prefix)]) == prefix
}

// below makes a node.
func (g *groups) below(parent *node, name string) *node {
	n := &node{name: name, index: uint32(len(g.list)), depth: parent.depth + 1, parent: parent} //nolint:gosec // below maxParts
	g.named[name] = n
	g.list = append(g.list, n)
	parent.children = append(parent.children, n)
	return n
}

// merge adds what others have counted.
func (g *groups) merge(o *groups) {
	g.capped = g.capped || o.capped
	maps.Copy(g.roots, o.roots)
	g.mergeNode(g.root(), o.root())
}

func (g *groups) mergeNode(n, o *node) {
	n.add(o)
	for _, c := range o.children {
		mine, ok := g.named[c.name]
		if !ok {
			mine = g.below(n, c.name)
		}
		g.mergeNode(mine, c)
	}
}

func (n *node) add(o *node) {
	n.keys += o.keys
	n.live += o.live
	n.revisions += o.revisions
	n.history += o.history
	n.tombstones += o.tombstones
	n.deleted += o.deleted
	n.variance += o.variance
	n.largest.offer(o.largest)
	n.mostRevised.offer(o.mostRevised)
}

// gather adds to each node what is below it.
func (n *node) gather() {
	for _, c := range n.children {
		c.gather()
		n.add(c)
	}
}

// amounts are the sums for a report. What a member does not tell is left out.
func (n *node) amounts(live bool) Amounts {
	a := Amounts{Keys: n.keys, Live: n.live, LiveError: int64(math.Sqrt(n.variance) + 0.5), Revisions: n.revisions}
	if !live {
		a.History, a.Tombstones, a.Deleted = new(n.history), new(n.tombstones), new(n.deleted)
	}
	return a
}

// fill writes the result into a report.
func (g *groups) fill(b *Breakdown) {
	g.root().gather()
	b.Total, b.Capped = g.root().amounts(b.Live), g.capped
	b.Groups = g.root().parts(b.Live, b.Total.bytes())
}

// parts are the groups below a node, the largest first.
func (n *node) parts(live bool, all int64) []Part {
	out := make([]Part, 0, len(n.children))
	for _, c := range n.children {
		p := Part{Name: Name(c.name), Amounts: c.amounts(live), Groups: c.parts(live, all)}
		p.Share = ratio(float64(p.bytes()), float64(all))
		if c.largest.key != "" {
			p.Largest = &KeySize{Key: Name(c.largest.key), Bytes: c.largest.n}
		}
		if c.mostRevised.key != "" {
			p.MostRevised = &KeyCount{Key: Name(c.mostRevised.key), Revisions: c.mostRevised.n}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.bytes(), a.bytes()), strings.Compare(string(a.Name), string(b.Name)))
	})
	return out
}
