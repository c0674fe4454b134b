package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

const (
	// probes is how many small writes are timed before the first deletion, and
	// probePause what lies between two.
	probes     = 40
	probePause = 25 * time.Millisecond
	// pageKeys is how many keys are read ahead of their deletion.
	pageKeys = 16 * maxTxnOps
)

// doomed is a key as it is to be deleted.
type doomed struct {
	key string
	mod int64
}

// groupRun is the deletion of one group.
type groupRun struct {
	*deletion
	group *DeleteGroup
	pace  *pacer

	deleted, kept, gone int64 // kept: written since the plan was made
	batches             int64
}

func (d *deletion) step(g *DeleteGroup) plan.Step {
	return plan.Step{
		StepResult: plan.StepResult{Subject: g.name(), Action: "delete " + g.amount().String()},
		Do: func(ctx context.Context, r *plan.StepResult) error {
			return d.deleteGroup(ctx, g, r)
		},
	}
}

// deleteGroup deletes the keys of a group in their order, page by page.
func (d *deletion) deleteGroup(ctx context.Context, g *DeleteGroup, r *plan.StepResult) error {
	if d.before.p50 == 0 {
		before, err := d.timeWrites(ctx)
		if err != nil {
			return err
		}
		d.before = before
	}
	run := &groupRun{deletion: d, group: g, pace: newPacer(d.before)}
	defer func() { r.Reason = run.summary() }()
	for _, kr := range d.selector.Ranges() {
		part, ok := kr.And(keyspace.PrefixRange(g.prefix))
		if !ok {
			continue
		}
		for more := true; more; {
			var page []doomed
			var err error
			if page, part.From, more, err = run.page(ctx, part); err != nil {
				return err
			}
			if err := run.deletePage(ctx, page); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *groupRun) summary() string {
	s := fmt.Sprintf("%s deleted in %s", counted(int(r.deleted), "key"), counted(int(r.batches), "transaction"))
	if r.kept > 0 {
		s += fmt.Sprintf("; %d kept, written since the plan was made", r.kept)
	}
	if r.gone > 0 {
		s += fmt.Sprintf("; %d were gone already", r.gone)
	}
	s += "; a small write took " + r.before.String() + " before"
	if len(r.pace.small) > 0 {
		s += ", " + quantiles(r.pace.small).String() + " meanwhile"
	}
	return s
}

var errPageFull = errors.New("the page is full")

// page reads the next keys of the group from a range, and returns where the one
// after it begins. It reads the member's latest revision, so that no compaction
// disturbs it, and passes over what was written since the plan.
func (r *groupRun) page(ctx context.Context, in keyspace.Range) (page []doomed, next string, more bool, err error) {
	err = r.source.Keys(ctx, keyspace.Query{From: in.From, End: in.End, KeysOnly: r.namesOnly()}, func(i *keyspace.Item) error {
		key := string(i.Key)
		if len(page) == pageKeys {
			next = key
			return errPageFull
		}
		if prefix, _ := r.groupPrefix(key); prefix != r.group.prefix || !r.selector.Has(key) || r.old(i) != ageOld {
			return nil
		}
		if i.ModRevision > r.found.rev {
			r.kept++
			return nil
		}
		page = append(page, doomed{key, i.ModRevision})
		return nil
	})
	if errors.Is(err, errPageFull) {
		return page, next, true, nil
	}
	return page, "", false, err
}

func (r *groupRun) deletePage(ctx context.Context, page []doomed) error {
	for len(page) > 0 {
		n := r.pace.fit(page)
		took, err := r.deleteBatch(ctx, page[:n])
		if tooMuch(err) && r.pace.refused(n) {
			continue
		}
		if err != nil {
			return err
		}
		page = page[n:]
		r.sink.Event(progress.Event{Op: opDelete, Subject: r.group.name(), Phase: "deleting", Done: r.deleted, Total: r.group.Keys, Unit: "keys"})
		if err := pauseBetween(ctx, r.pace.answered(took)); err != nil {
			return err
		}
		if r.batches%probeEvery == 0 {
			small, err := r.timeWrite(ctx)
			if err != nil && !passing(err) {
				return err
			}
			r.pace.probed(small)
		}
	}
	return nil
}

// tooMuch reports that the server takes no transaction of this size.
func tooMuch(err error) bool {
	switch fault.CauseOf(err) {
	case cluster.CauseTooManyOps, cluster.CauseRequestTooLarge, cluster.CauseClientMsgTooLarge:
		return true
	}
	return false
}

// deleteBatch deletes keys in one transaction, each only as it was read. It has no
// put in either branch, so that etcd takes it under NOSPACE as well. Where one of
// them has changed meanwhile, none is deleted, and the answer tells which it was;
// the rest goes into another transaction.
func (r *groupRun) deleteBatch(ctx context.Context, batch []doomed) (took time.Duration, err error) {
	unsure := false
	for len(batch) > 0 {
		var cmps []clientv3.Cmp
		var deletes, looks []clientv3.Op
		for _, k := range batch {
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(k.key), "=", k.mod))
			deletes = append(deletes, clientv3.OpDelete(k.key))
			looks = append(looks, clientv3.OpGet(k.key, clientv3.WithKeysOnly()))
		}
		began := time.Now()
		resp, lost, err := r.commit(ctx, cmps, deletes, looks)
		took = time.Since(began)
		if unsure = unsure || lost; err != nil {
			return took, err
		}
		r.batches++
		if resp.Succeeded {
			r.deleted += int64(len(batch))
			return took, nil
		}
		batch = r.unchanged(batch, resp, unsure)
	}
	return took, nil
}

// unchanged returns those of a batch that are still as they were read.
func (r *groupRun) unchanged(batch []doomed, resp *clientv3.TxnResponse, unsure bool) []doomed {
	var left []doomed
	for i, k := range batch {
		kvs := resp.Responses[i].GetResponseRange().GetKvs()
		switch {
		case len(kvs) == 1 && kvs[0].ModRevision == k.mod:
			left = append(left, k)
		case len(kvs) == 1:
			r.kept++
		case unsure: // by the transaction whose answer did not come
			r.deleted++
		default:
			r.gone++
		}
	}
	return left
}

// commit sends a transaction, and again while the cluster is between two leaders or
// an answer does not come: sent twice it deletes nothing more. lost says that one
// may have taken effect without an answer.
func (r *groupRun) commit(ctx context.Context, cmps []clientv3.Cmp, then, otherwise []clientv3.Op) (resp *clientv3.TxnResponse, lost bool, err error) {
	lost, err = again(ctx, r.client, r.sink, progress.Event{Op: opDelete, Subject: r.group.name()}, func() error {
		quorum, err := r.client.Quorum(ctx)
		if err == nil {
			resp, err = quorum.Txn(ctx, cmps, then, otherwise)
		}
		return err
	})
	return resp, lost, err
}

// timeWrites measures what a small write takes.
func (d *deletion) timeWrites(ctx context.Context) (latency, error) {
	var took []time.Duration
	for range probes {
		one, err := d.timeWrite(ctx)
		if err != nil {
			return latency{}, err
		}
		took = append(took, one)
		if err := pauseBetween(ctx, probePause); err != nil {
			return latency{}, err
		}
	}
	return quantiles(took), nil
}

// timeWrite times a write that changes nothing: the deletion of a key that is not
// there goes the whole way of a write, under NOSPACE too.
func (d *deletion) timeWrite(ctx context.Context) (time.Duration, error) {
	absent := d.selector.Ranges()[0].From + "\x00kvd/probe"
	quorum, err := d.client.Quorum(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = quorum.Txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(absent), "=", 0)}, []clientv3.Op{clientv3.OpDelete(absent)}, nil)
	return time.Since(began), err
}
