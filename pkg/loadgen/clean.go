package loadgen

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// CleanOptions is what Clean removes.
type CleanOptions struct {
	Prefix  string // Root, or one under it
	Compact bool
	// MustCompact compacts although Kubernetes' objects are in the cluster, whose
	// history is discarded then, and although no key is left: an earlier one may have
	// ended between the two.
	MustCompact bool
	DryRun      bool // count, and delete nothing
}

// DefaultCleanOptions removes everything.
func DefaultCleanOptions() CleanOptions { return CleanOptions{Prefix: Root, Compact: true} }

// CleanReport is what was removed.
type CleanReport struct {
	Prefix       string `json:"prefix"`
	Keys         int64  `json:"keys"`
	CompactedTo  int64  `json:"compacted_to_revision,omitempty"`
	NotCompacted string `json:"not_compacted,omitempty"` // why, where that was to be done
	DryRun       bool   `json:"dry_run,omitempty"`
}

// cleanPage is how many keys are deleted at a time: each delete is one entry of the
// log, which every member applies in one go.
const cleanPage = 500

// Clean deletes what loads have written, and compacts. Deletes are taken under
// NOSPACE too. Its errors are *fault.Error, and the report says how far it came.
func Clean(ctx context.Context, client *cluster.Client, o CleanOptions, sink progress.Sink) (CleanReport, error) {
	r := CleanReport{Prefix: o.Prefix, DryRun: o.DryRun}
	if !strings.HasPrefix(o.Prefix, Root) {
		return r, &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "loadgen clean", Subject: o.Prefix, Msg: "is not under " + Root + ", where loads write"}
	}
	view, err := client.View(ctx)
	if err != nil {
		return r, err
	}
	if err := view.OneCluster("loadgen clean"); err != nil {
		return r, err
	}
	if err := checkQuorum(view); err != nil {
		return r, err
	}
	q, err := client.Quorum(ctx)
	if err != nil {
		return r, err
	}
	all, err := q.Get(ctx, o.Prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return r, err
	}
	if o.DryRun {
		r.Keys = all.Count
		return r, nil
	}
	head := all.Header.Revision
	for {
		page, err := q.Get(ctx, o.Prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(cleanPage))
		if err != nil {
			return r, r.cutShort(err)
		}
		if len(page.Kvs) == 0 {
			break
		}
		last := string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		gone, err := q.Delete(ctx, string(page.Kvs[0].Key), clientv3.WithRange(last))
		if err != nil {
			return r, r.cutShort(err)
		}
		r.Keys, head = r.Keys+gone.Deleted, gone.Header.Revision
		sink.Event(progress.Event{Op: "loadgen clean", Phase: "deleting", Done: r.Keys, Total: all.Count, Unit: "keys"})
	}
	if !o.Compact || r.Keys == 0 && !o.MustCompact {
		return r, nil
	}
	err = checkForeign(ctx, q, o.MustCompact)
	if fault.CauseOf(err) == causeKubernetes {
		r.NotCompacted = "Kubernetes' objects are in this cluster: watches that begin anew would find their revision gone, and its API servers compact every five minutes"
		return r, nil
	}
	if err == nil {
		err = q.Compact(ctx, head, false)
	}
	if err != nil && fault.CauseOf(err) != cluster.CauseCompacted {
		return r, &fault.Error{Kind: fault.Partial, Op: "loadgen clean", Msg: "the keys were deleted, the history was not compacted", Err: err,
			Hint: fault.HintOf(err) + "; `kvd loadgen clean --compact` does it, also now that no key is left"}
	}
	r.CompactedTo = head
	return r, nil
}

// cutShort is the error of a clean-up that has deleted some keys, and not all.
func (r *CleanReport) cutShort(err error) error {
	if r.Keys == 0 {
		return err
	}
	kind := fault.Partial
	if fault.KindOf(err) == fault.Interrupted {
		kind = fault.Interrupted
	}
	return &fault.Error{Kind: kind, Op: "loadgen clean", Msg: "some keys were deleted, and not all; the history was not compacted", Err: err,
		Hint: "`kvd loadgen clean` goes on where it ended"}
}
