package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/diff"
)

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
	a.settle()
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
	if e.Rewritten != "" {
		fmt.Fprintf(t.w, "                 no field differs: written %s\n", e.Rewritten)
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
