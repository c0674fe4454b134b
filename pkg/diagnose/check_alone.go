package diagnose

import (
	"fmt"
	"slices"
)

// aloneAmong finds the cluster that a directory was taken out of by a restore: another
// directory's, whose members are those that this one knows, and more. A restore of the
// whole cluster has as many members as before.
func (in *Input) aloneAmong(d *Dir) (peer *Dir, ok bool) {
	mine := d.memberNames()
	if !d.restored() || len(mine) == 0 {
		return nil, false
	}
	for i := range in.Dirs {
		o := &in.Dirs[i]
		if o.Log == nil || o.Log.Cluster == 0 || o.Log.Cluster == d.Log.Cluster || o.name() == d.name() {
			continue
		}
		theirs := o.memberNames()
		if len(theirs) > len(mine) && !slices.ContainsFunc(mine, func(n string) bool { return !slices.Contains(theirs, n) }) {
			return o, true
		}
	}
	return nil, false
}

// memberNames are those of the members that its database has; of one that never started
// there is none.
func (d *Dir) memberNames() []string {
	if d.Log == nil || d.Log.Database == nil {
		return nil
	}
	var out []string
	for _, m := range d.Log.Database.Members {
		if m.Name != "" {
			out = append(out, m.Name)
		}
	}
	return out
}

// restoredAlone tells, by directories alone, of a member that a restore has taken out of
// its cluster. Where the cluster runs, amongPeers tells.
func (in *Input) restoredAlone(d *Dir) []Finding {
	if in.view().ID != 0 {
		return nil
	}
	o, ok := in.aloneAmong(d)
	if !ok {
		return nil
	}
	who := d.name()
	return []Finding{{ID: "KVD-RAFT-012", Severity: Critical, Subject: d.Path,
		Summary: fmt.Sprintf("%s was restored alone: it is of cluster %s, with %s, and %s of cluster %s, with %s: they refuse each other (\"cluster ID mismatch\")",
			d.Path, d.Log.Cluster, list(d.memberNames()), o.Path, o.Log.Cluster, list(o.memberNames())),
		Evidence: append(d.numbers(), Evidence{What: "member and cluster", Text: o.Log.Member.String() + ", " + o.Log.Cluster.String(), Source: o.Path}),
		Remedy:   []string{"start the others without it; a restored snapshot begins a new cluster", "kvd member replace " + who + "  # then, with an empty data dir: no restore"}}}
}
