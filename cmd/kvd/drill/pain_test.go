package drill_test

import (
	"strings"
	"testing"
	"time"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// painOptions are those of a short drill.
func painOptions(t *testing.T) drill.PainOptions {
	t.Helper()
	o := drill.DefaultPainOptions()
	o.Duration, o.Warmup, o.Dir = 3*time.Second, 300*time.Millisecond, t.TempDir()
	o.Command = local.Command{Path: servertest.Binary(t), Args: []string{"serve", "--unsafe-no-fsync"}}
	return o
}

func playPain(t *testing.T, p drill.Pain, o drill.PainOptions) (drill.PainReport, error) {
	t.Helper()
	r, err := drill.PlayPain(t.Context(), p, o, progress.Discard)
	logReport(t, r, err)
	nothingLeft(t, o.Dir)
	return r, err
}

// checkPain asserts what must be so of every load drill that was proved.
func checkPain(t *testing.T, p drill.Pain, o drill.PainOptions, r drill.PainReport) {
	t.Helper()
	if r.Drill != p.Name || r.Outcome != drill.Proved || r.CleanedUp == nil || r.CleanedUp.Processes != o.Members ||
		r.Pain.CleanedUp == nil || r.Pain.CleanedUp.Processes != o.Members || r.Pain.Dir == r.Remedied.Dir {
		t.Errorf("%s: outcome %s, missing %v, cleaned up %+v and %+v", r.Drill, r.Outcome, r.Missing, r.Pain.CleanedUp, r.CleanedUp)
	}
	said := diagnose.Report{Findings: r.Diagnosed.Findings}
	if !said.Has(p.Symptom) || (diagnose.Report{Findings: r.DiagnosedAfter.Findings}).Has(p.Symptom) {
		t.Errorf("%s: said %+v, and afterwards %+v", p.Symptom, r.Diagnosed.Findings, r.DiagnosedAfter.Findings)
	}
	for _, f := range said.Findings {
		if f.ID == p.Symptom && len(f.Evidence) == 0 {
			t.Errorf("%s without evidence", f.ID)
		}
	}
	judged := 0
	for _, f := range r.Figures {
		if f.Want() != "" {
			judged++
			if f.Verdict != drill.FigureKept {
				t.Errorf("%s is %s in a drill that was proved: %+v", f.What, f.Verdict, f)
			}
		}
		if f.What == "" || f.From == "" || f.Unit == "" || f.Verdict == "" {
			t.Errorf("%+v", f)
		}
	}
	if judged == 0 {
		t.Error("no figure is judged")
	}
	for _, run := range []drill.PainRun{r.Pain, r.Remedied} {
		if run.Load.Offered.Sent == 0 || run.Load.Measured < o.Duration.Seconds()-0.1 || len(run.Load.Servers) != o.Members || run.Load.Seed != o.Seed {
			t.Errorf("%s: %+v of %d members", run.Command, run.Load.Offered, len(run.Load.Servers))
		}
	}
}

func TestPainUsage(t *testing.T) {
	for name, change := range map[string]func(*drill.PainOptions){
		"no member":   func(o *drill.PainOptions) { o.Members = 0 },
		"six members": func(o *drill.PainOptions) { o.Members = 6 },
		"tiny quota":  func(o *drill.PainOptions) { o.QuotaBytes = 4096 },
		"too short":   func(o *drill.PainOptions) { o.Duration = time.Second },
		"no warm-up":  func(o *drill.PainOptions) { o.Warmup = -1 },
		"no folder":   func(o *drill.PainOptions) { o.Dir = "/nonexistent" },
	} {
		o := drill.DefaultPainOptions()
		o.Command.Path = "/nonexistent"
		change(&o)
		if _, err := drill.PlayPain(t.Context(), drill.Heartbeats(10), o, progress.Discard); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := drill.DefaultPainOptions()
	o.Command.Path = "/nonexistent"
	if _, err := drill.PlayPain(t.Context(), drill.Heartbeats(0), o, progress.Discard); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "--nodes") {
		t.Errorf("no node: %v", err)
	}
	if _, err := drill.BigList(10, 1, "hope"); fault.KindOf(err) != fault.Usage {
		t.Errorf("no remedy: %v", err)
	}
}

// A figure is judged by how many times one number is the other.
func TestFigures(t *testing.T) {
	for name, tc := range map[string]struct {
		f    drill.Figure
		want string
	}{
		"no bound":              {drill.Figure{Pain: 1, Remedied: 9}, drill.FigureShown},
		"enough":                {drill.Figure{Pain: 10, Remedied: 1, AtLeast: 10}, drill.FigureKept},
		"too little":            {drill.Figure{Pain: 9.9, Remedied: 1, AtLeast: 10}, drill.FigureBroken},
		"nothing left":          {drill.Figure{Pain: 9, AtLeast: 10}, drill.FigureKept},
		"nothing at all":        {drill.Figure{AtLeast: 0.9, AtMost: 1.1}, drill.FigureBroken},
		"about the same":        {drill.Figure{Pain: 10, Remedied: 10.5, AtLeast: 0.9, AtMost: 1.1}, drill.FigureKept},
		"too much":              {drill.Figure{Pain: 12, Remedied: 10, AtLeast: 0.9, AtMost: 1.1}, drill.FigureBroken},
		"nothing left, bounded": {drill.Figure{Pain: 12, AtLeast: 0.9, AtMost: 1.1}, drill.FigureBroken},
		"at most":               {drill.Figure{Pain: 1, Remedied: 10, AtMost: 1}, drill.FigureKept},
	} {
		why := tc.f.Judge()
		if tc.f.Verdict != tc.want || (why != "") != (tc.want == drill.FigureBroken) {
			t.Errorf("%s: %s (%s), want %s", name, tc.f.Verdict, why, tc.want)
		}
	}
}

// That a finding is not given says nothing where its check could not look.
func TestNotLooked(t *testing.T) {
	lacks := func(check string) *drill.Said {
		return &drill.Said{NotLooked: []diagnose.NotLooked{{Check: check, Missing: diagnose.Missing{Subject: "m1", Why: "no answer"}}}}
	}
	for name, tc := range map[string]struct {
		said *drill.Said
		want string
	}{
		"all was looked at":      {&drill.Said{}, ""},
		"nobody answered":        {&drill.Said{Error: "connection refused"}, "connection refused"},
		"the check was not made": {lacks("memory"), "m1: no answer"},
		"another was not made":   {lacks("written bytes"), ""},
		"one that there is not":  {lacks("nothing"), ""},
	} {
		if got := drill.Without(tc.said, "KVD-MEM-001"); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	p, o := drill.Heartbeats(300), painOptions(t)
	o.QuotaBytes = 256 << 20
	r, err := playPain(t, p, o)
	if err != nil {
		t.Fatal(err)
	}
	checkPain(t, p, o, r)
}

// A member that ends during a load ends the drill at once: otherwise the remedy is
// judged by what a dead server did not do.
func TestPainOfAMemberThatEnds(t *testing.T) {
	t.Parallel()
	o := painOptions(t)
	o.Duration = 8 * time.Second
	o.Command = local.Command{Path: "timeout", Args: append([]string{"-s", "KILL", "5", o.Command.Path}, o.Command.Args...)}
	r, err := playPain(t, drill.Heartbeats(50), o)
	if fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != "exited" || r.Outcome == drill.NotProved || len(r.Figures) > 0 {
		t.Errorf("%s: %v", r.Outcome, err)
	}
}

// Work that was still waited for when a load ended says that the machine was slow; work
// that was not done though nobody waited for it, that the loads were not the same.
func TestWorkThatWasNotDone(t *testing.T) {
	load := func(done, unfinished, late int64) drill.PainRun {
		return drill.PainRun{Load: result.Report{Requests: []result.Request{
			{Op: result.Op{RPC: "txn", Resource: "endpoints", Outcome: result.OK}, Count: done},
			{Op: result.Op{RPC: "txn", Resource: "endpoints", Outcome: result.Unfinished}, Count: unfinished},
			{Op: result.Op{RPC: "txn", Resource: "endpoints", Outcome: result.Timeout}, Count: late},
			{Op: result.Op{RPC: "watch_event", Resource: "endpoints", Outcome: result.Unfinished}, Count: 1000},
		}}}
	}
	for name, tc := range map[string]struct {
		pain, remedied drill.PainRun
		slow           bool
	}{
		"the pain was too much":   {load(102, 273, 0), load(375, 0, 0), true},
		"and came too late":       {load(102, 173, 100), load(375, 0, 0), true},
		"the remedy was too slow": {load(375, 0, 0), load(200, 150, 0), true},
		"half was not even sent":  {load(375, 0, 0), load(180, 0, 0), false},
		"nor does a little tell":  {load(375, 0, 0), load(180, 10, 0), false},
	} {
		f := drill.SameWork(drill.Figure{Pain: float64(tc.pain.Load.Requests[0].Count), Remedied: float64(tc.remedied.Load.Requests[0].Count)}, tc.pain, tc.remedied)
		if why := f.Judge(); why == "" || drill.TooSlow(f) != tc.slow {
			t.Errorf("%s: %q, too slow: %t", name, why, drill.TooSlow(f))
		}
	}
}
