package ops

import (
	"context"
	"slices"
	"strings"

	"kvd/pkg/ops/kube/keys"
)

// roots finds which --etcd-prefix the keys of a selection may have that nobody told
// us of. What lies in the keys' names is only a suspicion: app/users/1 may be a user
// of OpenShift below app, or somebody's own. So it is asked whether a namespace is
// there that every cluster of Kubernetes has.
type roots struct {
	known   []string        // with those of the layout
	asked   map[string]bool // and whether it is one
	suspect map[string]bool // still to be asked
	dir     string          // what the last key's name has up to its last slash
}

func newRoots(l keys.Layout) *roots {
	return &roots{known: slices.Clone(l.Prefixes), asked: map[string]bool{}, suspect: map[string]bool{}}
}

// layout returns one that knows the roots which are found.
func (r *roots) layout() keys.Layout {
	var out keys.Layout
	for _, root := range r.known {
		if root != "" { // which a layout has no name for
			out.Prefixes = append(out.Prefixes, root)
		}
	}
	return out
}

// look suspects the roots below which a key would be protected.
func (r *roots) look(key string, p protector) {
	dir := key[:strings.LastIndexByte(key, '/')+1]
	if dir == r.dir {
		return
	}
	r.dir = dir
	for i := range dir {
		root := dir[:i]
		if dir[i] != '/' || slices.Contains(r.known, root) {
			continue
		}
		if _, done := r.asked[root]; !done && len(p.below(root, key)) > 0 {
			r.suspect[root] = true
		}
	}
}

// ask asks for each suspected root whether it is one. more says that some are.
func (d *deletion) ask(ctx context.Context) (more bool, err error) {
	quorum, err := d.client.Quorum(ctx)
	if err != nil {
		return false, err
	}
	r := d.roots
	for root := range r.suspect {
		for _, name := range []string{"default", "kube-system"} {
			got, err := quorum.Get(ctx, root+"/namespaces/"+name)
			if err != nil {
				return false, err
			}
			r.asked[root] = r.asked[root] || got.Count > 0
		}
		if r.asked[root] {
			r.known, more = append(r.known, root), true
		}
	}
	r.suspect, r.dir = map[string]bool{}, ""
	return more, nil
}

// findRoot looks whether a prefix lies below a root nobody told us about. Objects
// are then selected there too.
func (d *deletion) findRoot(ctx context.Context) error {
	for i, c := range d.opts.Select.Prefix {
		if root := d.opts.Select.Prefix[:i]; c == '/' && !slices.Contains(d.roots.known, root) {
			d.roots.suspect[root] = true
		}
	}
	if _, err := d.ask(ctx); err != nil {
		return err
	}
	d.opts.Layout = d.roots.layout()
	return d.opts.Select.check(d.opts.Layout)
}
