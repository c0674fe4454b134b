// Package plan is the shape of everything kvd does to a cluster: a list of
// steps that is shown before it is run, each with a guard that is asked right
// before it, and a report that says of each step what became of it.
//
// A plan is a report in which nothing has happened yet; both have the same JSON
// form, so that what was promised and what was done can be laid side by side.
package plan

import (
	"context"
	"errors"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// State is what became of a step.
type State string

// The states of a step.
const (
	Planned     State = "planned"     // not begun
	Done        State = "done"        // carried out, and its effect verified where it can be
	Skipped     State = "skipped"     // not carried out: not needed, or the run had stopped before it
	Failed      State = "failed"      // begun (or refused by its guard) and not done
	Interrupted State = "interrupted" // begun, and ended by the caller before it was done
)

// StepResult is what is known of a step: before the run what is planned, after
// it what happened.
type StepResult struct {
	Subject     string  `json:"subject"`                // whom it concerns: a member, "cluster"
	Action      string  `json:"action"`                 // what it does: "compact to 4200"
	State       State   `json:"state"`                  // see State
	Reason      string  `json:"reason,omitempty"`       // why planned like this, skipped or failed; or what was found
	BeforeBytes *int64  `json:"before_bytes,omitempty"` // size of what the step changes, before it
	AfterBytes  *int64  `json:"after_bytes,omitempty"`  // the same measured after it; in a plan: predicted
	TookSeconds float64 `json:"took_seconds"`
}

// Bytes returns a pointer to n, for BeforeBytes and AfterBytes.
func Bytes(n int64) *int64 { return &n }

// Step is one action of a plan.
type Step struct {
	StepResult
	// Guard is asked right before Do. Its error stops the run before anything
	// of this step is done. Nil asks nothing.
	Guard func(context.Context) error
	// AfterEarlier says that Guard looks at what earlier steps bring about, so
	// that asking it before they ran would say nothing.
	AfterEarlier bool
	// Do carries the step out and verifies it by measuring. It fills in the
	// result's byte counts and reason. An error made by Skip marks the step as
	// not needed and lets the run go on; any other stops it.
	Do func(context.Context, *StepResult) error
}

// Plan is an ordered list of steps for one operation. It is run once and by one
// goroutine.
type Plan struct {
	Op    string   // the operation: "defrag"
	Notes []string // what the reader must know before saying yes
	Steps []Step
	// Guard is asked by Check before those of the steps: for what any step will be
	// refused by sooner or later, so that a plan that can't end isn't begun. Nil asks nothing.
	Guard func(context.Context) error
	// Detail is what programs want to know of the operation beside its steps. It
	// is in the report as it is after the run.
	Detail any
	// GoOn is asked after a step failed, with its error, whether to go on with
	// the next. Nil: never.
	GoOn func(error) bool
}

// Outcome sums up a report; it is derived from the states of the steps.
type Outcome string

// The outcomes of a report.
const (
	OutcomePlanned     Outcome = "planned"     // nothing was run
	OutcomeNothing     Outcome = "nothing"     // there was nothing to do
	OutcomeDone        Outcome = "done"        // all that was needed was done
	OutcomeFailed      Outcome = "failed"      // stopped before any step was done
	OutcomePartial     Outcome = "partial"     // stopped after some step was done
	OutcomeInterrupted Outcome = "interrupted" // the caller ended it
)

// Report is what a plan became.
type Report struct {
	Op          string       `json:"op"`
	Source      string       `json:"source,omitempty"` // where the address and credentials of the cluster came from
	StartedAt   time.Time    `json:"started_at"`
	Notes       []string     `json:"notes,omitempty"`
	Detail      any          `json:"detail,omitempty"` // Plan.Detail
	Steps       []StepResult `json:"steps"`
	Outcome     Outcome      `json:"outcome"`
	TookSeconds float64      `json:"took_seconds"`
}

// Describe returns the plan as a report in which nothing has happened.
func (p *Plan) Describe() Report {
	r := Report{Op: p.Op, StartedAt: time.Now().UTC(), Notes: p.Notes, Detail: p.Detail, Outcome: OutcomePlanned, Steps: []StepResult{}}
	for _, s := range p.Steps {
		s.State = orPlanned(s.State)
		r.Steps = append(r.Steps, s.StepResult)
	}
	if r.derive() == OutcomeNothing {
		r.Outcome = OutcomeNothing
	}
	return r
}

// Pending reports whether the plan has a step that would do something.
func (p *Plan) Pending() bool {
	for _, s := range p.Steps {
		if orPlanned(s.State) == Planned {
			return true
		}
	}
	return false
}

// Check asks the guards that mean something before anything was done, as a dry
// run does, and returns the first refusal. It changes nothing.
func (p *Plan) Check(ctx context.Context) error {
	if p.Guard != nil && p.Pending() {
		if err := p.Guard(ctx); err != nil {
			return err
		}
	}
	for i, s := range p.Steps {
		if s.Guard == nil || orPlanned(s.State) != Planned || (s.AfterEarlier && i > 0) {
			continue
		}
		var sk skip
		if err := s.Guard(ctx); err != nil && !errors.As(err, &sk) {
			return err
		}
	}
	return nil
}

// skip marks a step as passed over: not needed, or kept from being done by err.
type skip struct {
	reason string
	err    error
}

func (s skip) Error() string { return "skipped: " + s.reason }

func (s skip) Unwrap() error { return s.err }

// Skip returns the error with which a step's Guard or Do says that the step is
// not needed (any more). The run goes on.
func Skip(reason string) error { return skip{reason: reason} }

// PassOver returns the error with which a step says that it was needed and that
// err kept it from being done. The run goes on, and ends with err all the same.
func PassOver(err error) error { return skip{reason: fault.Why(err), err: err} }

// Run carries out the steps in order and stops at the first that fails. A step
// whose State is already Skipped is reported and not run.
//
// Ending ctx ends the step in hand. Closing stop (which may be nil) lets the
// step in hand finish and leaves the rest undone; a guard, and what a step waits
// for under Waiting, ends at once. In all cases the report is complete and the error
// is of kind Interrupted.
//
// Otherwise the error is that of the failed step, or of those that were passed
// over: of its own kind where no step was done, of kind Partial where one was.
func (p *Plan) Run(ctx context.Context, stop <-chan struct{}, sink progress.Sink) (Report, error) {
	r := p.Describe()
	began := time.Now()
	ctx = context.WithValue(ctx, stopKey{}, stop)
	var err error
	var passed []error // of steps that were not done and did not stop the run
	for i := range p.Steps {
		res := &r.Steps[i]
		if res.State != Planned {
			continue
		}
		if err = stopped(ctx, stop); err != nil {
			break
		}
		if err = p.Steps[i].run(ctx, p.Op, res, sink); err == nil {
			continue
		}
		var sk skip
		if errors.As(err, &sk) {
			err = sk.err
		} else if p.GoOn == nil || ctx.Err() != nil || !p.GoOn(err) {
			break
		}
		passed, err = append(passed, err), nil
	}
	r.TookSeconds = time.Since(began).Seconds()
	if err != nil {
		r.skipRest(err)
	}
	if len(passed) > 0 {
		err = errors.Join(append(passed, err)...)
	}
	r.Outcome = r.outcome(err)
	if err != nil && r.Outcome == OutcomePartial {
		err = &fault.Error{Kind: fault.Partial, Err: err, Hint: fault.HintOf(err), Cause: fault.CauseOf(err)}
	}
	return r, err
}

func (s *Step) run(ctx context.Context, op string, res *StepResult, sink progress.Sink) error {
	planned := res.Reason
	err := s.guarded(ctx, op, res, sink)
	said := res.Reason
	if said == planned { // why it was planned is no part of why it ended
		said = ""
	}
	var sk skip
	switch {
	case err == nil:
		res.State = Done
	case errors.As(err, &sk):
		if res.State, res.Reason = Skipped, sk.reason; sk.err == nil {
			err = nil
		}
	case ctx.Err() != nil: // asked first: what is left at once need not have been a wait
		res.State, res.Reason = Interrupted, reasons(fault.Why(err), said)
		err = interrupted()
	case endedWaiting(ctx, err):
		if res.State = Interrupted; res.Reason == "" { // else the step has said how far it came
			res.Reason = "ended while it waited, which changes nothing"
		}
		err = interrupted()
	default:
		res.State, res.Reason = Failed, reasons(fault.Why(err), said)
	}
	sink.Event(progress.Event{Op: op, Subject: res.Subject, Phase: res.Action, State: string(res.State), Note: res.Reason})
	return err
}

// reasons puts what a step has said of itself behind why it ended.
func reasons(why, said string) string {
	if said == "" {
		return why
	}
	return why + "; " + said
}

// guarded says that the step has started once its guard has let it: a guard may
// refuse, and may wait for minutes before.
func (s *Step) guarded(ctx context.Context, op string, res *StepResult, sink progress.Sink) error {
	if s.Guard != nil {
		waiting, cancel := Waiting(ctx)
		err := s.Guard(waiting)
		cancel()
		if err != nil {
			return err
		}
	}
	sink.Event(progress.Event{Op: op, Subject: res.Subject, Phase: res.Action, State: "started"})
	// Waiting for a guard is not part of what the step took.
	began := time.Now()
	defer func() { res.TookSeconds = time.Since(began).Seconds() }()
	return s.Do(ctx, res)
}

func stopped(ctx context.Context, stop <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return interrupted()
	case <-stop:
		return interrupted()
	default:
		return nil
	}
}

func interrupted() error {
	return &fault.Error{Kind: fault.Interrupted, Msg: "interrupted", Hint: "run the same command again to finish"}
}

// skipRest marks what was not begun when the run ended.
func (r *Report) skipRest(err error) {
	why := "not begun: the step before it failed"
	if fault.KindOf(err) == fault.Interrupted {
		why = "not begun: interrupted"
	}
	for i := range r.Steps {
		if r.Steps[i].State == Planned {
			r.Steps[i].State, r.Steps[i].Reason = Skipped, why
		}
	}
}

// outcome is that of a run that ended with err.
func (r *Report) outcome(err error) Outcome {
	o := r.derive()
	switch {
	case err == nil:
	case fault.KindOf(err) == fault.Interrupted:
		return OutcomeInterrupted
	case o == OutcomeDone, fault.KindOf(err) == fault.Partial: // not all of the steps; not all of a step
		return OutcomePartial
	case o == OutcomeNothing:
		return OutcomeFailed
	}
	return o
}

func (r *Report) derive() Outcome {
	count := map[State]int{}
	for _, s := range r.Steps {
		count[s.State]++
	}
	switch {
	case count[Interrupted] > 0:
		return OutcomeInterrupted
	case count[Failed] > 0 && count[Done] > 0:
		return OutcomePartial
	case count[Failed] > 0:
		return OutcomeFailed
	case count[Done] > 0:
		return OutcomeDone
	case count[Planned] > 0:
		return OutcomePlanned
	default:
		return OutcomeNothing
	}
}

func orPlanned(s State) State {
	if s == "" {
		return Planned
	}
	return s
}
