package diagnose

import (
	"fmt"
	"slices"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/snapshot"
)

// checkWentBack looks for revisions that were there and are not any more. A revision
// is never taken back but by a restore, and a watch from one that is yet to come waits
// without an error (watch in server/storage/mvcc/watchable_store.go): clients that were
// further do not notice.
func checkWentBack() Check {
	return Check{
		Name: "revisions kept", Asks: "has the revision gone back?", IDs: []string{"KVD-OPS-007"}, Needs: []Need{NeedRevisions},
		Look: func(in *Input) ([]Finding, string) {
			out := in.memberWentBack()
			head, measured := int64(0), "no member tells its revision"
			for _, m := range in.view().Answered() {
				head = max(head, m.Status.Revision)
			}
			all := in.revisions()
			best := furthestFile(all)
			if head > 0 {
				measured = fmt.Sprintf("at revision %d, and nothing that is known was further", head)
				if c := in.Compactor; c != nil && c.Compacts > max(head, c.Head) {
					return append(out, in.markedFurther(max(head, c.Head))), measured
				}
				if best.revision > head {
					out = append(out, wentBack("cluster", best.path, best.revision, head, best.evidence(), Evidence{What: "revision of the cluster", Value: float64(head), Unit: Index, Source: "status of all", At: in.At}))
				}
				return out, measured
			}
			for i := range in.Dirs {
				d := &in.Dirs[i]
				if !d.restored() || d.DB == nil || d.DB.Content == nil {
					continue
				}
				if _, alone := in.aloneAmong(d); alone {
					continue // it will not be what clients see: restoredAlone tells
				}
				mine := revisionOf{path: d.Path, revision: d.DB.Content.Revision}
				best := furthestFile(slices.DeleteFunc(slices.Clone(all), func(k revisionOf) bool { return k.dir != nil && sameCluster(k.dir, d) }))
				if best.revision > mine.revision {
					out = append(out, wentBack(d.Path, best.path, best.revision, mine.revision, best.evidence(), mine.evidence()))
				}
			}
			return out, fmt.Sprintf("the furthest is %s, at revision %d", best.path, best.revision)
		},
	}
}

// markedFurther reports an API server that has seen a later revision than there is: it
// writes into its marker the one that etcd told it with its last attempt, 5 minutes
// before (compact in k8s.io/apiserver, storage/etcd3/compact.go).
func (in *Input) markedFurther(head int64) Finding {
	c := in.Compactor
	f := wentBack("cluster", "", c.Compacts, head, Evidence{What: "revision in " + c.Key, Value: float64(c.Compacts), Unit: Index, Source: c.Source, At: in.At},
		Evidence{What: "head revision", Value: float64(head), Unit: Index, Source: c.Source, At: in.At})
	f.Summary = fmt.Sprintf("the revision has gone back from %d or more, which an API server has written into %s, to %d, as a restore without a bump does: "+
		"a client that has seen more waits without an error for changes, and hears nothing of those up to there", c.Compacts, c.Key, head)
	return f
}

// memberWentBack finds members that are behind where they were at the first look.
func (in *Input) memberWentBack() []Finding {
	var back []cluster.Member
	var e []Evidence
	var was, is int64
	for _, m := range in.view().Answered() {
		old, ok := in.before(m.ID)
		if !ok || m.Status.Revision >= old.Status.Revision {
			continue
		}
		back = append(back, m)
		was, is = max(was, old.Status.Revision), max(is, m.Status.Revision)
		e = append(e, status(m, "revision of "+name(m)+", before", float64(old.Status.Revision), Index), status(m, "revision of "+name(m)+", now", float64(m.Status.Revision), Index))
	}
	if len(back) == 0 {
		return nil
	}
	return []Finding{wentBack(names(back), "", was, is, e...)}
}

// revisionOf is a revision that a file has, which somebody may have seen.
type revisionOf struct {
	path     string
	revision int64
	dir      *Dir // nil for a file by itself
}

// sameCluster reports directories of one cluster: where one is ahead of the other, it is
// further, or holds other data, of which apart tells.
func sameCluster(a, b *Dir) bool {
	return a.Log != nil && b.Log != nil && a.Log.Cluster != 0 && a.Log.Cluster == b.Log.Cluster
}

func (k revisionOf) evidence() Evidence {
	return Evidence{What: "revision", Value: float64(k.revision), Unit: Index, Source: k.path}
}

// revisions are those of all files. A directory of the running cluster which has come
// no further by its entries, and has more revisions, holds other data: apart tells.
func (in *Input) revisions() []revisionOf {
	var applied uint64
	for _, m := range in.view().Answered() {
		applied = max(applied, m.Status.AppliedIndex)
	}
	var out []revisionOf
	for _, s := range in.stored() {
		if s.v.Content == nil || s.v.Verdict == snapshot.NotRestorable {
			continue
		}
		if d := s.dir; d != nil && d.Log != nil && cluster.FormatID(uint64(d.Log.Cluster)) == in.clusterID() && s.v.Content.ConsistentIndex <= applied {
			continue
		}
		out = append(out, revisionOf{s.path, s.v.Content.Revision, s.dir})
	}
	return out
}

func furthestFile(all []revisionOf) revisionOf {
	var best revisionOf
	for _, k := range all {
		if k.revision > best.revision {
			best = k
		}
	}
	return best
}

func wentBack(who, by string, was, is int64, e ...Evidence) Finding {
	f := Finding{ID: "KVD-OPS-007", Severity: Warning, Subject: who, Evidence: e, ExplainedBy: []string{"KVD-RAFT-012"},
		Summary: fmt.Sprintf("%s has gone back from revision %d to %d, which only a restore does: a client that has seen more waits without an error for changes that it takes for old", who, was, is),
		Remedy: []string{"restart every client that watches or keeps what it has read (kube-apiserver, its controllers, kubelets)",
			"kvd snapshot restore FILE --bump-revision auto --data-dir NEW  # or restore again before they go on, so that each watch ends"}}
	if who == "cluster" { // it runs, and has what was written since
		f.Remedy = []string{"kvd snapshot save now.db  # as it is, while nothing writes: an older one lacks what was written since",
			"kvd snapshot restore now.db --bump-revision auto --data-dir NEW  # all members stopped, the same on each: every watch then ends, and its client lists anew by itself",
			"or restart every client that watches or keeps what it has read (kube-apiserver, its controllers, kubelets, agents)",
			"don't write until the old revision is passed: watches then go on, and have missed all before"}
	}
	if by != "" {
		if who == "cluster" {
			who = "the cluster"
		}
		f.Summary = fmt.Sprintf("%s is at revision %d, and %s at %d: unless that is another cluster's, a restore took it back, and a client that has seen more waits without an error", who, is, by, was)
	}
	return f
}
