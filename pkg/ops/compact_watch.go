package ops

import (
	"fmt"
	"time"
)

// kubeRound is how often kube-apiserver moves compact_rev_key unless told
// otherwise (--etcd-compaction-interval).
const kubeRound = 5 * time.Minute

// CompactWatch says who compacts a cluster, from what changes between one look
// and the next. A nil one says nothing. It is used by one goroutine.
type CompactWatch struct {
	began  time.Time
	kube   int64     // compact_rev_key at the latest look
	moved  time.Time // when it was first seen like that
	oldest int64     // at the latest look
	aimed  int64     // the highest revision that we compacted to
	others int       // how often the history got shorter without us
}

// aim notes what is about to be compacted by ourselves.
func (w *CompactWatch) aim(rev int64) {
	if w != nil {
		w.aimed = max(w.aimed, rev)
	}
}

// look compares what is seen now with the look before.
func (w *CompactWatch) look(now time.Time, f compactFacts) []string {
	if w == nil {
		return nil
	}
	var out []string
	first := w.began.IsZero()
	if first {
		w.began, w.moved = now, now
	}
	switch since := now.Sub(w.moved); {
	case f.KubeMod == 0:
	case !first && f.KubeRev != w.kube:
		out = append(out, fmt.Sprintf("who compacts: kube-apiserver (compact_rev_key went from %d to %d since the look before), and this schedule what is left", w.kube, f.KubeRev))
		w.moved = now
	case first || since < 2*kubeRound:
		out = append(out, fmt.Sprintf("who compacts: compact_rev_key is there (%d, written at revision %d, %d revisions ago); whether kube-apiserver still moves it shows within %s",
			f.KubeRev, f.KubeMod, f.Head-f.KubeMod, 2*kubeRound))
	default:
		out = append(out, fmt.Sprintf("who compacts: this schedule. kube-apiserver has not moved compact_rev_key (%d, written %d revisions ago) for %s: its own compaction has stopped",
			f.KubeRev, f.Head-f.KubeMod, since.Round(time.Second)))
	}
	if !first && f.Oldest > w.oldest && f.Oldest > w.aimed && (f.KubeMod == 0 || f.Oldest > f.KubeRev) {
		w.others++
	}
	switch {
	case w.others > 0:
		out = append(out, fmt.Sprintf("who compacts: somebody else too, %d times since this began (etcd's --auto-compaction-retention, another kvd, or another tool)", w.others))
	case f.KubeMod == 0 && first:
		out = append(out, "who compacts: no kube-apiserver (there is no compact_rev_key); this schedule, and etcd itself if --auto-compaction-retention is set, which can't be seen from outside")
	case f.KubeMod == 0:
		out = append(out, "who compacts: this schedule and nobody else since it began")
	}
	w.kube, w.oldest = f.KubeRev, f.Oldest
	return out
}
