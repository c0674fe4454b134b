package cli

import (
	"context"
	"fmt"
	"strings"

	"kvd/pkg/ops"
	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
)

// diffReport is what is said of a comparison beside its entries: the last line of
// the stream, or all of it with --stat.
type diffReport struct {
	A       diffSide         `json:"a"`
	B       diffSide         `json:"b"`
	Differ  bool             `json:"differ"`
	Total   diff.Counts      `json:"total"`
	By      diff.By          `json:"by"`
	Groups  []diff.Group     `json:"groups"`
	Notes   []string         `json:"notes,omitempty"`
	Hashes  []ops.MemberHash `json:"hashes,omitempty"`
	Lost    []string         `json:"lost_revisions,omitempty"` // members whose history is another one
	Verdict string           `json:"verdict,omitempty"`        // on which members differ from most

	jury *ops.Jury
}

type diffSide struct {
	Source   string `json:"source"`
	Revision int64  `json:"revision"`
	keyspace.Bounds
}

func newDiffReport(a, b openSide, heads ops.Heads, o diffOptions) *diffReport {
	return &diffReport{Lost: heads.Lost, Notes: heads.Lags, Differ: len(heads.Lost) > 0,
		A: diffSide{a.source.Name(), a.Rev, a.bounds}, B: diffSide{b.source.Name(), b.Rev, b.bounds}, By: o.By, Groups: []diff.Group{}}
}

func (r *diffReport) finish(s *diff.Summary) {
	s.Finish()
	r.Total, r.Groups, r.Differ = s.Total, s.Groups, r.Differ || s.Total.Keys() > 0
	if r.jury != nil {
		r.Verdict = strings.TrimPrefix(r.Verdict+"; "+r.jury.Verdict(), "; ")
	}
}

// compareHashes has all members hash their keys; it is true where all are the same.
func (r *diffReport) compareHashes(ctx context.Context, app *App, a openSide) (same bool, err error) {
	if r.Hashes, err = ops.HashMembers(ctx, a.client, a.view, a.Rev, app.Progress()); err != nil {
		return false, err
	}
	verdict, same, differ := ops.JudgeHashes(r.Hashes, len(a.view.Voters()))
	r.Verdict, r.Differ = verdict, r.Differ || differ
	return same, nil
}

// judge is the verdict as an error.
func (r *diffReport) judge() error {
	if !r.Differ {
		return nil
	}
	e := &fault.Error{Kind: fault.Wanting, Cause: "differ", Op: "diff", Msg: count(int(r.Total.Keys()), "key") + " differ"}
	switch {
	case len(r.Lost) > 0 && r.Total.Keys() == 0:
		e.Msg = "a member has lost revisions: " + strings.Join(r.Lost, "; ")
	case r.Total.Keys() == 0:
		e.Msg = "the hashes of the members differ, and at this revision no key does: what they keep of older revisions is not the same"
	case r.Total.Keys() == 1:
		e.Msg += "s"
	}
	return e
}

// announce says what will be read from members, and what cannot be told.
func (o *diffOptions) announce(ctx context.Context, app *App, a, b openSide, r *diffReport) {
	hint := "; --trust-revisions reads names only"
	if o.twoMembers() {
		hint = "" // what it takes for granted is what they are compared for
	}
	for _, s := range []openSide{a, b} {
		if !s.spec.live() || o.ByRevision {
			continue
		}
		if cost, err := s.source.Cost(ctx, keyspace.Query{}); err == nil {
			app.warn("reads every value of the range from %s, %s at most, at %s/s%s", s.source.Name(), sizeText(cost.Bytes), sizeText(int64(o.from.rate)), hint)
		}
	}
	from, to := a, b
	if from.Rev > to.Rev {
		from, to = to, from
	}
	if o.History && to.bounds.Oldest > from.Rev {
		r.Notes = append(r.Notes, fmt.Sprintf("%s has its history from revision %d on: keys that were made and deleted between %d and that are not shown",
			to.source.Name(), to.bounds.Oldest, from.Rev))
	}
}
