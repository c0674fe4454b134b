package cli

import (
	"fmt"
	"io"
	"path"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/cluster"
)

// teller writes the story of a drill. It has nothing but the report, so that
// the text cannot say what -o json does not.
type teller struct {
	w   io.Writer
	err error
}

func (t *teller) say(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, render.Safe(fmt.Sprintf(format, args...)))
	}
}

func (t *teller) gap() {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w)
	}
}

// rows draws a table with an empty line behind it.
func rows[T any](t *teller, c render.Columns[T], rows []T) {
	if t.err == nil && len(rows) > 0 {
		t.err = c.Write(t.w, rows)
		t.gap()
	}
}

// tellNospace tells one phase of the drill.
func tellNospace(w io.Writer, r drill.Report, p drill.Phase) error {
	t := &teller{w: w}
	switch p {
	case drill.PhaseReproduce:
		t.reproduce(r)
	case drill.PhaseDiagnose:
		t.diagnose(r)
		t.said(r.Diagnosed)
	case drill.PhaseRemedy:
		t.remedy(r)
	case drill.PhaseProve:
		t.prove(r)
		t.said(r.DiagnosedAfter)
	case drill.PhaseEnd:
		t.end(r.Ending)
	}
	return t.err
}

func (t *teller) reproduce(r drill.Report) {
	t.say("REPRODUCE: fill a cluster until it is read-only")
	t.say("%s with a quota of %s each; ready after %s.", count(r.Members, "member"), sizeText(r.QuotaBytes), seconds(r.StartSeconds))
	if r.WritesUntilFull == 0 {
		return
	}
	t.say("Filled as Kubernetes does it: %d writes, %s of keys and values in %s:", r.WritesUntilFull, sizeText(r.BytesUntilFull), seconds(r.FillSeconds))
	rows(t, loadColumns(), r.Written)
	if r.RefusedWriteError == "" {
		return
	}
	t.say("Then the first write was refused: %s", r.RefusedWriteError)
	t.say("And now through each member, a kubelet that renews its Lease:")
	rows(t, attemptColumns(), r.Refused)
	t.say("Kubernetes' own compactor cannot help: it had compacted to revision %d, and to go on to %d it must first write %s: %s",
		r.Compactor.CompactedTo, r.Compactor.NextRev, r.Compactor.Key, orDash(r.Compactor.Error))
	t.alarms(r.Alarms)
	t.gap()
}

func (t *teller) alarms(alarms []cluster.Alarm) {
	if len(alarms) == 0 {
		t.say("Alarms: none.")
		return
	}
	var names []string
	for _, a := range alarms {
		names = append(names, fmt.Sprintf("%s of %s", a.Type, orDash(a.MemberName)))
	}
	t.say("Alarms: %s.", strings.Join(names, ", "))
}

func (t *teller) diagnose(r drill.Report) {
	d := r.Diagnosis
	t.say("DIAGNOSE: what fills the files")
	t.sizes(r, drill.AtFull)
	if d.Member == "" {
		return
	}
	t.say("Read from %s: of %s in use, %s is live (%d keys) and %s is history: %.0f%%, revisions %d to %d.",
		d.Member, sizeText(d.InUseBytes), sizeText(d.LiveBytes), d.LiveKeys, sizeText(d.HistoryBytes), 100*d.HistoryRatio, d.Oldest, d.Head)
	t.say("Free pages in the file: %s. The first member to reach its quota, %s, makes all of them read-only.", sizeText(d.FreeBytes), sizeText(d.EffectiveQuota))
	rows(t, usageColumns(), d.Resources)
}

func (t *teller) sizes(r drill.Report, moment string) {
	if s, ok := r.SizesAt(moment); ok {
		rows(t, memberSizeColumns(), s.Members)
	}
}

func (t *teller) remedy(r drill.Report) {
	t.say("REMEDY: %s", r.Remedy)
	if r.Recover != nil {
		rows(t, reportColumns(), r.Recover.Steps)
	}
	for _, m := range []struct{ moment, what string }{
		{drill.AfterCompact, "After the compaction the pages are free, and the files as large as before:"},
		{drill.AfterDefrag, "After the defragmentation the files are small:"},
	} {
		if _, ok := r.SizesAt(m.moment); ok {
			t.say("%s", m.what)
			t.sizes(r, m.moment)
		}
	}
	if len(r.Restarts) == 0 {
		return
	}
	rows(t, restartColumns(), r.Restarts)
	t.sizes(r, drill.AfterRestart)
	t.say("There is room now, and yet every write is refused as before: the alarm is kept in the database, and a restart does not look again.")
	rows(t, attemptColumns(), r.StillSaid)
	t.alarms(r.StillAlarms)
	if r.Disarm != nil {
		t.say("So it has to be disarmed:")
		rows(t, reportColumns(), r.Disarm.Steps)
	}
}

func (t *teller) prove(r drill.Report) {
	t.say("PROVE: the same writes again")
	rows(t, attemptColumns(), r.Proof.Writes)
	if r.Proof.Revision != 0 {
		t.say("Revision %d reads back through every member; %s holds %d again; all of that took %s.",
			r.Proof.Revision, r.Compactor.Key, r.Proof.CompactorNext, seconds(r.Proof.TookSeconds))
	}
	t.sizes(r, drill.AtProof)
	t.alarms(r.Proof.Alarms)
	t.gap()
}

// said tells what kvd diagnose says.
func (t *teller) said(s *drill.Said) {
	switch {
	case s == nil:
		return
	case s.Error != "":
		t.say("kvd diagnose gets no answer: %s", s.Error)
	case len(s.Findings) == 0:
		t.say("kvd diagnose finds nothing wrong.")
	default:
		t.say("kvd diagnose says:")
		for _, f := range s.Findings {
			t.say("  %s (%s) %s: %s", f.ID, f.Severity, f.Subject, f.Summary)
		}
	}
	t.gap()
}

func (t *teller) end(r drill.Ending) {
	for _, m := range r.Missing {
		t.say("Missing: %s", m)
	}
	t.say("Outcome: %s, after %s.", r.Outcome, seconds(r.TookSeconds))
	if c := r.CleanedUp; c != nil {
		t.say("Cleaned up: %s ended, %s removed.", processes(c.Processes), c.Dir)
	}
	if k := r.Kept; k != nil {
		t.say("The cluster runs on, in %s, as processes %s:", k.Dir, strings.Trim(fmt.Sprint(k.PIDs), "[]"))
		t.say("  %s", k.Export)
		t.say("  %s", k.Status)
		t.say("End it with:")
		t.say("  %s", k.Stop)
	}
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

func loadColumns() render.Columns[drill.ResourceLoad] {
	return render.Columns[drill.ResourceLoad]{
		{Header: "resource", Value: func(l drill.ResourceLoad) string { return l.Resource }},
		{Header: "objects", Right: true, Value: func(l drill.ResourceLoad) string { return fmt.Sprint(l.Objects) }},
		{Header: "writes", Right: true, Value: func(l drill.ResourceLoad) string { return fmt.Sprint(l.Writes) }},
		{Header: "bytes", Right: true, Value: func(l drill.ResourceLoad) string { return sizeText(l.Bytes) }},
	}
}

func attemptColumns() render.Columns[drill.Attempt] {
	return render.Columns[drill.Attempt]{
		{Header: "through", Value: func(a drill.Attempt) string { return a.Member }},
		{Header: "lease of", Value: func(a drill.Attempt) string { return nodeOf(a.Key) }},
		{Header: "result", Value: func(a drill.Attempt) string {
			if a.Revision != 0 {
				return fmt.Sprintf("written at revision %d", a.Revision)
			}
			return a.Error
		}},
		{Header: "took", Right: true, Value: func(a drill.Attempt) string { return seconds(a.TookSeconds) }},
	}
}

// nodeOf is the name of the node that a Lease's key ends with, without its
// domain.
func nodeOf(key string) string {
	name, _, _ := strings.Cut(path.Base(key), ".")
	return name
}

func usageColumns() render.Columns[drill.ResourceUsage] {
	return render.Columns[drill.ResourceUsage]{
		{Header: "live resource", Value: func(u drill.ResourceUsage) string { return u.Resource }},
		{Header: "keys", Right: true, Value: func(u drill.ResourceUsage) string { return fmt.Sprint(u.Keys) }},
		{Header: "bytes", Right: true, Value: func(u drill.ResourceUsage) string { return sizeText(u.LiveBytes) }},
		{Header: "share", Right: true, Value: func(u drill.ResourceUsage) string { return fmt.Sprintf("%.0f%%", 100*u.Share) }},
	}
}

func memberSizeColumns() render.Columns[drill.MemberSize] {
	return render.Columns[drill.MemberSize]{
		{Header: "member", Value: func(m drill.MemberSize) string { return m.Name }},
		{Header: "role", Value: func(m drill.MemberSize) string { return m.Role }},
		{Header: "db size", Right: true, Value: func(m drill.MemberSize) string { return sizeText(m.DBSize) }},
		{Header: "in use", Right: true, Value: func(m drill.MemberSize) string { return sizeText(m.DBInUse) }},
		{Header: "quota", Right: true, Value: func(m drill.MemberSize) string { return sizeText(m.Quota) }},
		{Header: "used", Right: true, Value: func(m drill.MemberSize) string {
			return fmt.Sprintf("%.1f%%", 100*float64(m.DBSize)/float64(m.Quota))
		}},
	}
}

func restartColumns() render.Columns[drill.Restart] {
	return render.Columns[drill.Restart]{
		{Header: "restarted", Value: func(r drill.Restart) string { return r.Member }},
		{Header: "role", Value: func(r drill.Restart) string { return r.Role }},
		{Header: "quota before", Right: true, Value: func(r drill.Restart) string { return sizeText(r.QuotaBefore) }},
		{Header: "quota after", Right: true, Value: func(r drill.Restart) string { return sizeText(r.QuotaAfter) }},
		{Header: "took", Right: true, Value: func(r drill.Restart) string { return seconds(r.TookSeconds) }},
	}
}
