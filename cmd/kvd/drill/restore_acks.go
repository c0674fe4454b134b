package drill

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// AckedWrite is a write that was acknowledged.
type AckedWrite struct {
	Resource string `json:"resource"`
	Key      string `json:"key"`
	Revision int64  `json:"revision"`
}

// acknowledged is every write of the load that was answered, with its revision. It
// may be used from many goroutines.
type acknowledged struct {
	mu     sync.Mutex
	writes []AckedWrite
}

func (a *acknowledged) note(o *object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes = append(a.writes, AckedWrite{o.resource, o.key, o.modRev})
}

func (a *acknowledged) count() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.writes))
}

// last is the highest revision that was acknowledged.
func (a *acknowledged) last() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var last int64
	for _, w := range a.writes {
		last = max(last, w.Revision)
	}
	return last
}

// notIn lists the acknowledged writes that a picture does not have. A later write
// of the same key that was not answered may stand in its place.
func (a *acknowledged) notIn(p picture) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, w := range a.writes {
		if p.keys[w.Key].ModRevision < w.Revision && w.Revision <= p.revision {
			out = append(out, fmt.Sprintf("the acknowledged write of %s at revision %d is not there", w.Key, w.Revision))
		}
	}
	return out
}

// lostExamples is how many of the lost writes are named.
const lostExamples = 5

// after counts the writes behind a revision and names the first.
func (a *acknowledged) after(rev int64) (int64, []AckedWrite) {
	lost := a.behind(rev)
	return int64(len(lost)), lost[:min(len(lost), lostExamples)]
}

// resourcesAfter counts them by resource, the most first.
func (a *acknowledged) resourcesAfter(rev int64) []LostResource {
	var out []LostResource
	for _, w := range a.behind(rev) {
		i := slices.IndexFunc(out, func(r LostResource) bool { return r.Resource == w.Resource })
		if i < 0 {
			i, out = len(out), append(out, LostResource{Resource: w.Resource})
		}
		out[i].Writes++
	}
	slices.SortFunc(out, func(a, b LostResource) int {
		return cmp.Or(cmp.Compare(b.Writes, a.Writes), cmp.Compare(a.Resource, b.Resource))
	})
	return out
}

// behind are the writes behind a revision, in their order.
func (a *acknowledged) behind(rev int64) []AckedWrite {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.DeleteFunc(slices.Clone(a.writes), func(w AckedWrite) bool { return w.Revision <= rev })
	slices.SortFunc(out, func(a, b AckedWrite) int { return cmp.Compare(a.Revision, b.Revision) })
	return out
}
