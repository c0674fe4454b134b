package ops

import (
	"fmt"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/revclock"
)

// minMargin is how many revisions a compaction nobody gave a number for leaves
// in place, at least: room for paged lists that are being read, and for watches
// that have to reconnect.
const minMargin = 1000

// marginTime is the time that the margin should cover where the write rate is
// known. Kubernetes' own compactor keeps at least as much.
const marginTime = 5 * time.Minute

// CompactGoal says up to where to compact. At most one of its fields is set;
// with none kvd proposes a revision itself.
type CompactGoal struct {
	To   int64 // exactly this revision
	Head bool  // the newest revision there is
	Keep int64 // leave this many revisions below the head

	For time.Duration // leave what is younger; needs CompactOptions.Known
}

// compactFacts is what the choice of a revision rests on.
type compactFacts struct {
	Head      int64  // newest revision
	Oldest    int64  // oldest readable revision: that of the last compaction
	RaftIndex uint64 // highest raft index seen, to recognise it in a wrong argument
	KubeRev   int64  // what compact_rev_key holds, 0 where there is no such key
	KubeMod   int64  // the revision at which that key was last written
	NoSpace   bool   // a NOSPACE alarm is raised
	Known     revclock.Answer
	Rate      float64 // revisions per second, measured
}

// target is a chosen revision and the reason for it, for people.
type target struct {
	Rev int64
	Why string

	None   bool // there is none yet, and Why says what for
	Margin bool // kvd chose how many revisions are left
}

// choose turns a goal into a revision. Its errors are usage errors: nothing was
// sent.
func (g CompactGoal) choose(f compactFacts) (target, error) {
	switch {
	case g.To != 0:
		return target{Rev: g.To, Why: "as told"}, g.check(f)
	case g.Head:
		return target{Rev: f.Head, Why: "the head revision, as told: nothing but the newest values stays readable"}, nil
	case g.Keep > 0:
		return target{Rev: max(f.Head-g.Keep, 0), Why: fmt.Sprintf("head %d less the %d revisions to keep", f.Head, g.Keep)}, nil
	case g.For > 0:
		return g.chooseByTime(f.Known), nil
	case f.KubeRev > f.Oldest && f.KubeRev <= f.Head && !f.NoSpace:
		return target{Rev: f.KubeRev, Why: fmt.Sprintf(
			"what kube-apiserver's own compactor (compact_rev_key) does next; it leaves %d revisions", f.Head-f.KubeRev)}, nil
	case f.NoSpace:
		return target{Margin: true, Rev: max(f.Head-minMargin, 0), Why: fmt.Sprintf("head %d less %d revisions, since space is out", f.Head, minMargin)}, nil
	default:
		margin := max(minMargin, int64(f.Rate*marginTime.Seconds()))
		return target{Margin: true, Rev: max(f.Head-margin, 0), Why: fmt.Sprintf(
			"head %d less %d revisions (at least %d, or %s at the measured %.1f revisions/s)",
			f.Head, margin, minMargin, marginTime, f.Rate)}, nil
	}
}

// chooseByTime goes by what was sampled. As long as that does not reach back far
// enough there is no target.
func (g CompactGoal) chooseByTime(a revclock.Answer) target {
	if !a.Known {
		return target{None: true, Why: fmt.Sprintf("nothing is compacted yet: revisions are known for the last %s only, and %s are to be kept",
			a.Spans.Round(time.Second), g.For)}
	}
	return target{Rev: a.Rev, Why: fmt.Sprintf("where the cluster was %s ago, as sampled; %s are to be kept", a.Age.Round(time.Second), g.For)}
}

// check refuses a revision that cannot be meant.
func (g CompactGoal) check(f compactFacts) error {
	if g.To <= f.Head {
		return nil
	}
	msg := fmt.Sprintf("revision %d is above the head revision %d", g.To, f.Head)
	if uint64(g.To) <= f.RaftIndex {
		msg += fmt.Sprintf(" (%d looks like a raft index, which is another count: the raft index is now %d)", g.To, f.RaftIndex)
	}
	return &fault.Error{Kind: fault.Usage, Cause: "future_revision", Op: "compact", Msg: msg,
		Hint: fmt.Sprintf("did you mean %d? `--to head` compacts everything, `--keep-revisions N` leaves N revisions; nothing was sent", f.Head)}
}

// stepsTo cuts the way from the oldest revision to the target into pieces of at
// most step revisions; the last piece ends at the target.
func stepsTo(oldest, to, step int64) []int64 {
	if step <= 0 || to-oldest <= step {
		return []int64{to}
	}
	var revs []int64
	for rev := oldest + step; rev < to; rev += step {
		revs = append(revs, rev)
	}
	return append(revs, to)
}
