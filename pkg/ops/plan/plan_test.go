package plan_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// script is a step that does what its word says.
func script(word string, ran *[]string, more ...func()) plan.Step {
	s := plan.Step{StepResult: plan.StepResult{Subject: "m", Action: word}}
	s.Guard = func(context.Context) error {
		switch word {
		case "guarded":
			return fault.New(fault.Refused, "the guard said no")
		case "unneeded":
			return plan.Skip("nothing to gain")
		}
		return nil
	}
	s.Do = func(ctx context.Context, r *plan.StepResult) error {
		*ran = append(*ran, word)
		for _, f := range more {
			f()
		}
		switch word {
		case "fails":
			return fault.New(fault.Unavailable, "it broke")
		case "kept":
			return plan.PassOver(fault.New(fault.Refused, "somebody said no"))
		case "half":
			return fault.New(fault.Partial, "did half of it")
		case "hangs":
			<-ctx.Done()
			return ctx.Err()
		}
		r.AfterBytes = plan.Bytes(7)
		return nil
	}
	return s
}

func states(r plan.Report) []plan.State {
	out := []plan.State{}
	for _, s := range r.Steps {
		out = append(out, s.State)
	}
	return out
}

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		name    string
		words   []string
		ran     []string
		states  []plan.State
		outcome plan.Outcome
		kind    fault.Kind
	}{
		{"all done", []string{"a", "b"}, []string{"a", "b"}, []plan.State{plan.Done, plan.Done}, plan.OutcomeDone, ""},
		{"no step", nil, nil, []plan.State{}, plan.OutcomeNothing, ""},
		{"not needed", []string{"unneeded"}, nil, []plan.State{plan.Skipped}, plan.OutcomeNothing, ""},
		{"not needed and done", []string{"unneeded", "b"}, []string{"b"}, []plan.State{plan.Skipped, plan.Done}, plan.OutcomeDone, ""},
		{"refused at once", []string{"guarded", "b"}, nil, []plan.State{plan.Failed, plan.Skipped}, plan.OutcomeFailed, fault.Refused},
		{"refused later is partial", []string{"a", "guarded", "c"}, []string{"a"}, []plan.State{plan.Done, plan.Failed, plan.Skipped}, plan.OutcomePartial, fault.Partial},
		{"failed at once", []string{"fails", "b"}, []string{"fails"}, []plan.State{plan.Failed, plan.Skipped}, plan.OutcomeFailed, fault.Unavailable},
		{"failed later is partial", []string{"a", "fails"}, []string{"a", "fails"}, []plan.State{plan.Done, plan.Failed}, plan.OutcomePartial, fault.Partial},
		{"one is kept from it", []string{"a", "kept", "c"}, []string{"a", "kept", "c"}, []plan.State{plan.Done, plan.Skipped, plan.Done}, plan.OutcomePartial, fault.Partial},
		{"all are kept from it", []string{"kept", "kept", "unneeded"}, []string{"kept", "kept"}, []plan.State{plan.Skipped, plan.Skipped, plan.Skipped}, plan.OutcomeFailed, fault.Refused},
		{"half of a step", []string{"half", "b"}, []string{"half"}, []plan.State{plan.Failed, plan.Skipped}, plan.OutcomePartial, fault.Partial},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var ran []string
			p := plan.Plan{Op: "test"}
			for _, w := range tc.words {
				p.Steps = append(p.Steps, script(w, &ran))
			}
			r, err := p.Run(t.Context(), nil, progress.Discard)
			if !slices.Equal(ran, tc.ran) {
				t.Errorf("ran %v, want %v", ran, tc.ran)
			}
			if got := states(r); !slices.Equal(got, tc.states) {
				t.Errorf("states %v, want %v", got, tc.states)
			}
			if r.Outcome != tc.outcome {
				t.Errorf("outcome %s, want %s", r.Outcome, tc.outcome)
			}
			if got := fault.KindOf(err); got != tc.kind {
				t.Errorf("kind %q, want %q (%v)", got, tc.kind, err)
			}
		})
	}
}

// Why a step was planned is not said to be why it failed; what it has said of itself
// since is.
func TestReasonOfAFailure(t *testing.T) {
	for what, want := range map[string]string{"": "it broke", "found out": "it broke; found out"} {
		var ran []string
		s := script("fails", &ran)
		s.Reason = "if it gains by then"
		do := s.Do
		s.Do = func(ctx context.Context, r *plan.StepResult) error {
			if what != "" {
				r.Reason = what
			}
			return do(ctx, r)
		}
		p := plan.Plan{Op: "x", Steps: []plan.Step{s}}
		if r, _ := p.Run(t.Context(), nil, progress.Discard); r.Steps[0].Reason != want {
			t.Errorf("%q, want %q", r.Steps[0].Reason, want)
		}
	}
}

func TestStopLetsTheStepInHandFinish(t *testing.T) {
	var ran []string
	stop := make(chan struct{})
	p := plan.Plan{Op: "test", Steps: []plan.Step{script("a", &ran, func() { close(stop) }), script("b", &ran)}}
	r, err := p.Run(t.Context(), stop, progress.Discard)
	if want := []plan.State{plan.Done, plan.Skipped}; !slices.Equal(states(r), want) {
		t.Errorf("states %v, want %v", states(r), want)
	}
	if r.Outcome != plan.OutcomeInterrupted || fault.KindOf(err) != fault.Interrupted {
		t.Errorf("outcome %s, error %v: want interrupted", r.Outcome, err)
	}
}

// What only waits, a guard among it, ends at a stop; what it was to precede is not begun.
func TestStopEndsAWait(t *testing.T) {
	for _, where := range []string{"guard", "do"} {
		t.Run(where, func(t *testing.T) {
			var ran []string
			stop := make(chan struct{})
			waits := script("waits", &ran)
			forever := func(ctx context.Context) error {
				close(stop)
				waiting, cancel := plan.Waiting(ctx)
				defer cancel()
				<-waiting.Done()
				return waiting.Err()
			}
			if where == "guard" {
				waits.Guard = forever
			} else {
				waits.Do = func(ctx context.Context, _ *plan.StepResult) error { return forever(ctx) }
			}
			p := plan.Plan{Op: "test", Steps: []plan.Step{script("a", &ran), waits, script("b", &ran)}}
			r, err := p.Run(t.Context(), stop, progress.Discard)
			if want := []plan.State{plan.Done, plan.Interrupted, plan.Skipped}; !slices.Equal(states(r), want) {
				t.Errorf("states %v, want %v", states(r), want)
			}
			if r.Outcome != plan.OutcomeInterrupted || fault.KindOf(err) != fault.Interrupted || !slices.Equal(ran, []string{"a"}) {
				t.Errorf("outcome %s, error %v, ran %v", r.Outcome, err, ran)
			}
		})
	}
}

func TestCancelEndsTheStepInHand(t *testing.T) {
	var ran []string
	ctx, cancel := context.WithCancel(t.Context())
	p := plan.Plan{Op: "test", Steps: []plan.Step{script("a", &ran), script("hangs", &ran, cancel), script("c", &ran)}}
	r, err := p.Run(ctx, nil, progress.Discard)
	if want := []plan.State{plan.Done, plan.Interrupted, plan.Skipped}; !slices.Equal(states(r), want) {
		t.Errorf("states %v, want %v", states(r), want)
	}
	if r.Outcome != plan.OutcomeInterrupted || fault.KindOf(err) != fault.Interrupted {
		t.Errorf("outcome %s, error %v: want interrupted", r.Outcome, err)
	}
}

func TestCheckAsksOnlyGuardsThatMeanSomethingNow(t *testing.T) {
	var ran []string
	late := script("guarded", &ran)
	late.AfterEarlier = true
	p := plan.Plan{Op: "test", Steps: []plan.Step{script("a", &ran), late}}
	if err := p.Check(t.Context()); err != nil {
		t.Errorf("a guard that looks at what earlier steps bring about was asked before them: %v", err)
	}
	p.Steps = append(p.Steps, script("guarded", &ran))
	if err := p.Check(t.Context()); fault.KindOf(err) != fault.Refused {
		t.Errorf("got %v, want the guard's refusal", err)
	}
	if len(ran) != 0 {
		t.Errorf("a check ran %v", ran)
	}
	ran = nil
	endless := plan.Plan{Op: "test", Steps: []plan.Step{script("a", &ran)}, Guard: func(context.Context) error { return fault.New(fault.Refused, "it can't end") }}
	if err := endless.Check(t.Context()); fault.KindOf(err) != fault.Refused {
		t.Errorf("a plan that can't end: %v", err)
	}
	if endless.Steps[0].State = plan.Skipped; endless.Check(t.Context()) != nil {
		t.Error("a plan with nothing to do is refused")
	}
}

func TestDescribeIsAReportInWhichNothingHappened(t *testing.T) {
	var ran []string
	p := plan.Plan{Op: "test", Steps: []plan.Step{script("a", &ran)}}
	r := p.Describe()
	if r.Outcome != plan.OutcomePlanned || !slices.Equal(states(r), []plan.State{plan.Planned}) || len(ran) != 0 {
		t.Errorf("outcome %s, states %v, ran %v", r.Outcome, states(r), ran)
	}
}

func TestPartialKeepsTheHint(t *testing.T) {
	var ran []string
	bad := script("b", &ran)
	bad.Do = func(context.Context, *plan.StepResult) error {
		return fault.New(fault.Refused, "no").WithHint("do this")
	}
	p := plan.Plan{Op: "test", Steps: []plan.Step{script("a", &ran), bad}}
	_, err := p.Run(t.Context(), nil, progress.Discard)
	var e *fault.Error
	if !errors.As(err, &e) || fault.HintOf(err) != "do this" {
		t.Errorf("hint %q of %v", fault.HintOf(err), err)
	}
}
