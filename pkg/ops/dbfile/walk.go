package dbfile

import (
	"bytes"
	"context"
	"fmt"
)

// walker goes through one tree of pages from left to right, checking each page
// and the order of all keys.
type walker struct {
	f      *File
	ctx    context.Context
	pager  pager
	seen   *pageSet // pages that were met before, by this walk or others that share it
	bucket string   // for messages
	from   []byte   // keys below are skipped where whole pages of them can be

	// leaf is called for each leaf page, with its elements checked.
	leaf func(p *page) error
	// damage is told of what is wrong. The walk goes on behind it if it
	// returns nil.
	damage func(*Damage) error
	// space, where it is not nil, is told of every page.
	space *Space

	last     []byte // the last key of the last leaf
	current  page   // the leaf that leaf looks at: here, so that it is not allocated for each
	branches []branchCopy
}

// branchCopy keeps the branch page of one level while its children are walked.
type branchCopy struct {
	b        []byte
	children []uint64
}

// tree walks the tree whose root is the given page.
func (w *walker) tree(root uint64) error {
	w.last = nil
	w.pager.ahead(0, []uint64{root})
	return w.subtree(root, 0, nil, nil)
}

// subtree walks what is below one page: keys from lower to upper, nil is open.
func (w *walker) subtree(id uint64, depth int, lower, upper []byte) error {
	p, ok, err := w.enter(id, depth, lower, upper)
	if err != nil || !ok {
		return err
	}
	if !p.isLeaf() {
		return w.branch(&p, depth, upper)
	}
	if p.count > 0 {
		key, _, _ := p.leafElement(p.count - 1)
		w.last = append(w.last[:0], key...)
	}
	w.current = p
	return w.leaf(&w.current)
}

// enter reads one page and checks it against those above and before it. It is
// false for one that cannot be used, where damage says that the walk goes on.
func (w *walker) enter(id uint64, depth int, lower, upper []byte) (page, bool, error) {
	if err := w.ctx.Err(); err != nil {
		return page{}, false, err
	}
	lost := func(d *Damage) (page, bool, error) {
		d.Bucket, d.Subtree = w.bucket, true
		d.Lower, d.Upper = bytes.Clone(lower), bytes.Clone(upper)
		return page{}, false, w.damage(d)
	}
	if depth >= maxDepth {
		return lost(&Damage{Class: DamageDepth, Page: id, Offset: w.f.pageOffset(id), Element: -1, Msg: fmt.Sprintf("more than %d levels deep", maxDepth)})
	}
	p, bad := w.pager.page(depth, id)
	if bad != nil {
		return lost(bad)
	}
	if other, ok := w.seen.add(id, p.overflow); !ok {
		return lost(&Damage{Class: DamageShared, Page: id, Offset: p.base, Element: -1, Msg: fmt.Sprintf("page %d is referred to twice, or by itself", other)})
	}
	if bad := w.checkOrder(&p, lower, upper); bad != nil {
		return lost(bad)
	}
	if w.space != nil {
		w.space.page(&p, int64(w.f.header.PageSize))
	}
	return p, true, nil
}

// branch walks the children of a branch page. The page is copied, since the
// buffer it is in belongs to the next page of its level.
func (w *walker) branch(p *page, depth int, upper []byte) error {
	for len(w.branches) <= depth {
		w.branches = append(w.branches, branchCopy{})
	}
	c := w.branches[depth]
	c.b, c.children = append(c.b[:0], p.b...), c.children[:0]
	p.b = c.b
	for i := range p.count {
		_, child := p.branchElement(i)
		c.children = append(c.children, child)
	}
	w.branches[depth] = c
	children := c.children
	for i, child := range children {
		lower, _ := p.branchElement(i)
		end := upper
		if i+1 < p.count {
			end, _ = p.branchElement(i + 1)
		}
		if w.from != nil && end != nil && bytes.Compare(end, w.from) <= 0 {
			continue
		}
		w.pager.ahead(depth+1, children[i:])
		if err := w.subtree(child, depth+1, lower, end); err != nil {
			return err
		}
	}
	return nil
}

// checkOrder checks that the keys of a page ascend, and are where the pages above
// and before say: this is what makes a search find them.
func (w *walker) checkOrder(p *page, lower, upper []byte) *Damage {
	previous, strict := lower, false
	if p.isLeaf() && len(w.last) > 0 && bytes.Compare(w.last, lower) >= 0 {
		previous, strict = w.last, true
	}
	for i := range p.count {
		var key []byte
		if p.isLeaf() {
			key, _, _ = p.leafElement(i)
		} else {
			key, _ = p.branchElement(i)
		}
		c := bytes.Compare(previous, key)
		if previous != nil && (c > 0 || c == 0 && strict) {
			return &Damage{Class: DamageKeyOrder, Page: p.id, Offset: p.elementOffset(i), Element: i, Msg: fmt.Sprintf("key %s is not above %s", showKey(key), showKey(previous))}
		}
		if upper != nil && bytes.Compare(key, upper) >= 0 {
			return &Damage{Class: DamageKeyOrder, Page: p.id, Offset: p.elementOffset(i), Element: i, Msg: fmt.Sprintf("key %s is not below %s, which the pages to its right begin with", showKey(key), showKey(upper))}
		}
		previous, strict = key, true
	}
	return nil
}

// showKey shows a revision as etcd writes it, and any other key quoted.
func showKey(key []byte) string {
	if r, ok := ParseRevision(key); ok {
		return r.String()
	}
	if len(key) > 40 {
		return fmt.Sprintf("%q…", key[:40])
	}
	return fmt.Sprintf("%q", key)
}

// pageOffset is where a page begins, or 0 for a number that no file reaches.
func (f *File) pageOffset(id uint64) int64 {
	if id >= f.header.Pages {
		return 0
	}
	return int64(id) * int64(f.header.PageSize)
}

// pageSet is a set of page numbers. It holds no more of them than the file does.
type pageSet struct {
	words []uint64
	count uint64
}

func newPageSet(f *File) *pageSet {
	pages := min(f.header.Pages, uint64(f.size)/uint64(f.header.PageSize)+1)
	return &pageSet{words: make([]uint64, pages/64+1)}
}

func (s *pageSet) has(id uint64) bool {
	return id/64 < uint64(len(s.words)) && s.words[id/64]&(1<<(id%64)) != 0
}

// add adds a page and its overflow, all of which are in the file. If one of them
// is in the set already, add says which, and adds none.
func (s *pageSet) add(id uint64, overflow uint32) (uint64, bool) {
	for i := id; i <= id+uint64(overflow); i++ {
		if s.has(i) {
			return i, false
		}
	}
	for i := id; i <= id+uint64(overflow); i++ {
		if i/64 < uint64(len(s.words)) {
			s.words[i/64] |= 1 << (i % 64)
			s.count++
		}
	}
	return 0, true
}
