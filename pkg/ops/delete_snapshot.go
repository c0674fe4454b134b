package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/plan"
)

// snapshotStep saves a snapshot, unless one is there that is as good.
func (d *deletion) snapshotStep(ctx context.Context, view cluster.View) (plan.Step, error) {
	step := plan.Step{
		StepResult: plan.StepResult{Subject: "cluster", Action: "save a snapshot"},
		Do: func(ctx context.Context, r *plan.StepResult) error {
			view, err := d.client.View(ctx)
			if err != nil {
				return err
			}
			r.Reason, err = d.opts.Snapshot(ctx, view)
			return err
		},
	}
	if d.opts.Saved == nil {
		return step, nil
	}
	path, err := d.opts.Saved(ctx, view)
	if path == "" || err != nil {
		return step, err
	}
	rev, err := d.heldBy(ctx, path)
	if rev > 0 {
		step.State, step.Reason = plan.Skipped, fmt.Sprintf("%s, of revision %d, has all that is to be deleted", path, rev)
	}
	return step, err
}

// errLacks ends a comparison: the snapshot lacks something.
var errLacks = errors.New("a key is not in the snapshot as it is")

// heldBy returns the revision of a snapshot that has every key which is to be deleted
// just as it is, and 0 for one that has not. Values are compared too: a cluster that
// was restored writes other things under the same revisions.
func (d *deletion) heldBy(ctx context.Context, path string) (rev int64, err error) {
	file, err := keyspace.OpenFile(ctx, path, keyspace.FileOptions{Op: opDelete, Sink: d.sink})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	bounds, err := file.Bounds(ctx)
	if err != nil {
		return 0, err
	}
	ranges := d.selector.Ranges()
	q := keyspace.Query{From: ranges[0].From, End: ranges[len(ranges)-1].End, KeysOnly: true}
	next, stop := iter.Pull2(items(ctx, file, q))
	defer stop()
	saved := &savedItems{file: file, next: next}
	for _, r := range ranges {
		err := d.source.Keys(ctx, keyspace.Query{From: r.From, End: r.End, Rev: d.found.rev}, func(i *keyspace.Item) error {
			if !d.selector.Has(string(i.Key)) || d.old(i) != ageOld {
				return nil
			}
			return saved.has(ctx, i)
		})
		switch {
		case errors.Is(err, errLacks), fault.CauseOf(err) == cluster.CauseCompacted: // then it is not known
			return 0, nil
		case err != nil:
			return 0, err
		}
	}
	return bounds.Head, nil
}

// savedItems goes through a file beside the keys of a cluster.
type savedItems struct {
	file *keyspace.FileSource
	next func() (*keyspace.Item, error, bool)
	item *keyspace.Item // in hand; nil before the first
}

// has looks for a key as it is, behind those that were looked for before.
func (s *savedItems) has(ctx context.Context, want *keyspace.Item) error {
	for s.item == nil || bytes.Compare(s.item.Key, want.Key) < 0 {
		item, err, more := s.next()
		if err != nil {
			return err
		}
		if !more {
			return errLacks
		}
		s.item = item
	}
	if !bytes.Equal(s.item.Key, want.Key) || s.item.ModRevision != want.ModRevision ||
		s.item.CreateRevision != want.CreateRevision || s.item.Version != want.Version {
		return errLacks
	}
	if err := s.file.Load(ctx, s.item); err != nil {
		return err
	}
	if !bytes.Equal(s.item.Value, want.Value) {
		return errLacks
	}
	return nil
}

// items gives a walk's items one by one; an item is valid until the next.
func items(ctx context.Context, s keyspace.Source, q keyspace.Query) iter.Seq2[*keyspace.Item, error] {
	return func(yield func(*keyspace.Item, error) bool) {
		left := errors.New("nobody wants more")
		err := s.Keys(ctx, q, func(i *keyspace.Item) error {
			if !yield(i, nil) {
				return left
			}
			return nil
		})
		if err != nil && !errors.Is(err, left) {
			yield(nil, err)
		}
	}
}
