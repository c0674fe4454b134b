package dbfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
)

// partsPerWorker is how finely a tree is cut, so that the shares of the workers are
// about equal.
const partsPerWorker = 16

// part is a subtree with the keys from lower to upper in it; nil is open.
type part struct {
	id           uint64
	depth        int
	lower, upper []byte
}

// RecordsBeside calls fn for each record of the bucket "key", from as many
// goroutines at a time as there are workers. Those of one worker come in order,
// and all of worker 0's are older than worker 1's, and so on; Record.Index counts
// each worker's own. The first error, by order of the records, ends it.
func (f *File) RecordsBeside(ctx context.Context, workers int, fn func(worker int, r *Record) error) error {
	seen := newPageSet(f)
	buckets, err := f.buckets(ctx, seen, f.stopped)
	if err != nil {
		return err
	}
	for i := range buckets {
		if buckets[i].Name == BucketKey {
			return f.recordsBeside(ctx, &buckets[i], workers, seen, nil, fn)
		}
	}
	return nil
}

// recordsBeside reads the bucket, adds its pages to seen, and what they are used
// for to space where that is not nil.
func (f *File) recordsBeside(ctx context.Context, b *Bucket, workers int, seen *pageSet, space *Space, fn func(int, *Record) error) error {
	top := &walker{f: f, ctx: ctx, pager: pager{f: f}, seen: seen, bucket: b.Name, damage: f.stopped, space: space}
	if b.Root == 0 {
		top.leaf = decodeRecords(b, nil, func(r *Record) error { return fn(0, r) }, f.stopped).leaf
		return top.walk(b)
	}
	parts, err := top.parts(b.Root, workers*partsPerWorker)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	walkers, errs := make([]*walker, workers), make([]error, workers)
	for i := range workers {
		w := &walker{f: f, ctx: ctx, pager: pager{f: f}, seen: newPageSet(f), bucket: b.Name, damage: f.stopped}
		if space != nil {
			w.space = &Space{}
		}
		w.leaf = decodeRecords(b, nil, func(r *Record) error { return fn(i, r) }, f.stopped).leaf
		walkers[i] = w
		wg.Go(func() {
			errs[i] = w.each(parts[i*len(parts)/workers : (i+1)*len(parts)/workers])
			if errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	if err := firstCause(errs); err != nil {
		return err
	}
	for _, w := range walkers {
		if other, ok := seen.merge(w.seen); !ok {
			return f.stopped(&Damage{Class: DamageShared, Bucket: b.Name, Page: other, Offset: f.pageOffset(other), Element: -1,
				Msg: fmt.Sprintf("page %d is referred to twice, or by itself", other)})
		}
		if space != nil {
			space.add(w.space)
		}
	}
	return nil
}

// firstCause returns the first error that does not only say that another stopped
// the rest.
func firstCause(errs []error) error {
	var canceled error
	for _, err := range errs {
		switch {
		case err == nil:
		case !errors.Is(err, context.Canceled):
			return err
		case canceled == nil:
			canceled = err
		}
	}
	return canceled
}

// each walks subtrees that follow on each other.
func (w *walker) each(parts []part) error {
	ids := make([]uint64, len(parts))
	for i, p := range parts {
		ids[i] = p.id
	}
	for i, p := range parts {
		w.pager.ahead(p.depth, ids[i:])
		if err := w.subtree(p.id, p.depth, p.lower, p.upper); err != nil {
			return err
		}
	}
	return nil
}

// parts cuts a tree level by level into n subtrees or more, or into its leaves
// where it has fewer. The pages above them are walked with that.
func (w *walker) parts(root uint64, n int) ([]part, error) {
	parts := []part{{id: root}}
	for cut := true; cut && len(parts) < n; {
		cut = false
		var finer []part
		for _, at := range parts {
			if p, bad := w.pager.page(at.depth, at.id); bad != nil || p.isLeaf() {
				finer = append(finer, at) // whoever walks it says what is wrong
				continue
			}
			p, _, err := w.enter(at.id, at.depth, at.lower, at.upper)
			if err != nil {
				return nil, err
			}
			cut = true
			finer = append(finer, p.parts(at)...)
		}
		parts = finer
	}
	return parts, nil
}

// parts returns the children of a branch page.
func (p *page) parts(at part) []part {
	out := make([]part, p.count)
	for i := range out {
		lower, child := p.branchElement(i)
		out[i] = part{id: child, depth: at.depth + 1, lower: bytes.Clone(lower), upper: at.upper}
		if i > 0 {
			out[i-1].upper = out[i].lower
		}
	}
	return out
}

// merge adds another set. If one of its pages is in both, merge says which.
func (s *pageSet) merge(other *pageSet) (uint64, bool) {
	for i, w := range other.words {
		if both := s.words[i] & w; both != 0 {
			id := uint64(i) * 64
			for both&1 == 0 {
				both, id = both>>1, id+1
			}
			return id, false
		}
		s.words[i] |= w
	}
	s.count += other.count
	return 0, true
}
