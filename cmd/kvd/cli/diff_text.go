package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"kvd/cmd/kvd/cli/render"
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

// printer returns what prints an entry.
func (o *diffOptions) printer(app *App, out *bufio.Writer) func(*diff.Entry) error {
	switch {
	case o.stat:
		return func(*diff.Entry) error { return nil }
	case o.nameOnly:
		return func(e *diff.Entry) error {
			_, err := fmt.Fprintln(out, render.Safe(string(e.Key)))
			return err
		}
	case app.Global.Output == render.JSON:
		enc := render.NewEncoder(out)
		return func(e *diff.Entry) error { return enc.Encode(e) }
	}
	return diffText{w: out, values: o.ShowValues}.entry
}

// printDiff prints what is said at the end.
func (a *App) printDiff(out *bufio.Writer, r *diffReport, o diffOptions) error {
	switch {
	case o.stat:
		return a.Print(r, func(w io.Writer) error { return r.draw(w, true) })
	case a.Global.Output == render.JSON:
		return render.NewEncoder(out).Encode(map[string]*diffReport{"summary": r})
	case o.nameOnly:
		return nil
	}
	return r.draw(out, false)
}

// draw writes the report for people, with the table of its groups or without.
func (r *diffReport) draw(w io.Writer, table bool) error {
	if table && len(r.Groups) > 0 {
		if err := diffColumns(r.By).Write(w, append(r.Groups, diff.Group{Name: "total", Counts: r.Total})); err != nil {
			return err
		}
	}
	var said []string
	for _, k := range diff.Kinds() {
		if n := r.Total.Of(k); n > 0 {
			said = append(said, fmt.Sprintf("%d %s", n, kindText(k)))
		}
	}
	switch {
	case len(said) == 0 && r.Differ:
		said = []string{"no key differs at this revision"}
	case len(said) == 0:
		said = []string{"no difference"}
	}
	fmt.Fprintf(w, "A: %s at revision %d\nB: %s at revision %d\n", render.Safe(r.A.Source), r.A.Revision, render.Safe(r.B.Source), r.B.Revision)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", render.Safe(n))
	}
	for _, l := range r.Lost {
		fmt.Fprintf(w, "lost: %s\n", render.Safe(l))
	}
	if r.Verdict != "" {
		fmt.Fprintf(w, "verdict: %s\n", render.Safe(r.Verdict))
	}
	_, err := fmt.Fprintf(w, "diff: %s\n", strings.Join(said, ", "))
	return err
}

func diffColumns(by diff.By) render.Columns[diff.Group] {
	cols := render.Columns[diff.Group]{{Header: string(by), Value: func(g diff.Group) string { return g.Name }}}
	for _, k := range diff.Kinds() {
		cols = append(cols, render.Column[diff.Group]{Header: kindText(k), Right: true, Value: func(g diff.Group) string {
			if n := g.Of(k); n > 0 {
				return fmt.Sprint(n)
			}
			return "-"
		}})
	}
	return append(cols,
		render.Column[diff.Group]{Header: "values in a", Right: true, Value: func(g diff.Group) string { return sizeText(g.BytesA) }},
		render.Column[diff.Group]{Header: "values in b", Right: true, Value: func(g diff.Group) string { return sizeText(g.BytesB) }})
}

// kindText is what people read for a kind.
func kindText(k diff.Kind) string {
	if k == diff.Leased {
		return "lease changed"
	}
	return string(k)
}

// diffText prints entries for people, each as it comes.
type diffText struct {
	w      *bufio.Writer
	values bool
}

func (t diffText) entry(e *diff.Entry) error {
	line := []string{fmt.Sprintf("%-13s  %s", kindText(e.Kind), render.Safe(string(e.Key)))}
	if what := strings.Join(diffWords(e), "; "); what != "" {
		line = append(line, what)
	}
	if _, err := fmt.Fprintln(t.w, strings.Join(line, "  ")); err != nil {
		return err
	}
	for _, f := range e.Fields {
		fmt.Fprintf(t.w, "                 %s\n", fieldText(f))
	}
	if e.Opaque != "" {
		fmt.Fprintf(t.w, "                 fields not known: %s\n", render.Safe(e.Opaque))
	}
	if t.values && len(e.Fields) == 0 && e.Kind != diff.Transient {
		t.value("-", e.A)
		t.value("+", e.B)
	}
	return nil
}

// shownValue is how much of a value is shown.
const shownValue = 256

func (t diffText) value(sign string, s *diff.State) {
	if s == nil {
		return
	}
	more := ""
	if len(s.Value) > shownValue {
		more = fmt.Sprintf(" … (%s)", count(len(s.Value), "byte"))
	}
	fmt.Fprintf(t.w, "               %s %s%s\n", sign, render.Safe(string(s.Value[:min(len(s.Value), shownValue)])), more)
}

// diffWords says what there is to say of an entry in its line.
func diffWords(e *diff.Entry) []string {
	var out []string
	switch {
	case e.Kind == diff.Transient:
		return []string{fmt.Sprintf("made %s and written %s between revisions %d and %d", times(e.Lives), times(e.Writes), e.First, e.Last)}
	case e.A == nil:
		out = append(out, fmt.Sprintf("revision %d, %s", e.B.ModRevision, sizeText(e.B.ValueBytes)))
	case e.B == nil:
		out = append(out, fmt.Sprintf("was of revision %d, %s", e.A.ModRevision, sizeText(e.A.ValueBytes)))
	default:
		out = append(out, fmt.Sprintf("revision %d → %d", e.A.ModRevision, e.B.ModRevision))
		if e.Writes > 0 {
			out = append(out, "written "+times(e.Writes))
		}
		out = append(out, sameOrNot(e)...)
	}
	if e.Majority != "" {
		out = append(out, map[string]string{"a": "most members are like A", "b": "most members are like B", "none": "no majority among the members",
			"neither": "most members agree on something else"}[e.Majority])
	}
	return out
}

// sameOrNot says of a key that both sides have what its kind does not.
func sameOrNot(e *diff.Entry) (out []string) {
	switch {
	case e.IgnoredOnly:
		out = append(out, "only ignored fields changed")
	case !e.ValueChanged && e.Kind != diff.Leased:
		out = append(out, "the same value")
	case e.ValueChanged && e.A.ValueBytes != e.B.ValueBytes:
		out = append(out, sizeText(e.A.ValueBytes)+" → "+sizeText(e.B.ValueBytes))
	}
	if e.A.ModRevision == e.B.ModRevision {
		out = append(out, "of the same revision and yet different: two histories, or damage")
	}
	if e.LeaseChanged {
		out = append(out, fmt.Sprintf("lease %s → %s", leaseText(e.A.Lease), leaseText(e.B.Lease)))
	}
	return out
}

func leaseText(id int64) string {
	if id == 0 {
		return "none"
	}
	return fmt.Sprintf("%x", uint64(id)) //nolint:gosec // the bits, as etcdctl shows them
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
