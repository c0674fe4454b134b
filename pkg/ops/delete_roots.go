package ops

import (
	"context"
	"maps"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

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

// ask asks for each suspected root whether it is one, by the namespaces that every
// cluster of Kubernetes has. more says that some are.
func (d *deletion) ask(ctx context.Context) (more bool, err error) {
	r := d.roots
	suspects := slices.Sorted(maps.Keys(r.suspect))
	var names []string
	for _, root := range suspects {
		names = append(names, root+"/namespaces/default", root+"/namespaces/kube-system")
	}
	there, err := d.areThere(ctx, names)
	if err != nil {
		return false, err
	}
	for i, root := range suspects {
		if r.asked[root] = there[2*i] || there[2*i+1]; r.asked[root] {
			r.known, more = append(r.known, root), true
		}
	}
	r.suspect, r.dir = map[string]bool{}, ""
	return more, nil
}

// askAtOnce is how many keys are asked for in one request: a key space may have as
// many suspects as somebody has tenants. Servers that take less get less.
const askAtOnce = maxTxnOps / 2

// areThere tells of each key whether it exists.
func (d *deletion) areThere(ctx context.Context, names []string) (there []bool, err error) {
	quorum, err := d.client.Quorum(ctx)
	if err != nil {
		return nil, err
	}
	for n := askAtOnce; len(there) < len(names); {
		some := names[len(there):min(len(there)+n, len(names))]
		var gets []clientv3.Op
		for _, key := range some {
			gets = append(gets, clientv3.OpGet(key, clientv3.WithCountOnly()))
		}
		resp, err := quorum.Txn(ctx, nil, gets, nil)
		if tooMuch(err) && n > 1 {
			n /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, got := range resp.Responses {
			there = append(there, got.GetResponseRange().GetCount() > 0)
		}
	}
	return there, nil
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
