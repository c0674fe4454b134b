package drill

import (
	"context"
	"errors"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// scene is what all scenes have: a stage, once it is set, and how they end.
type scene struct {
	*stage
	drill   string
	symptom string // the finding that the pain is to give; empty: none that is always there
	keep    bool
	sink    progress.Sink
	ending  *Ending // in the report
	told    func(Phase)
	parting func(context.Context) error // what a cluster needs that is left to itself; nil: nothing
}

// act is a phase and what is done in it.
type act struct {
	phase Phase
	do    func(context.Context) error
}

// perform plays the acts, leaves the stage or strikes it, and returns the error
// to return.
func (s *scene) perform(ctx context.Context, acts []act) error {
	began := time.Now()
	err := s.ending.conclude(ctx, s.drill, s.play(ctx, acts))
	if s.stage != nil {
		err = errors.Join(err, s.end(ctx, err))
	}
	s.ending.TookSeconds = time.Since(began).Seconds()
	s.told(PhaseEnd)
	return err
}

// play runs the acts until one fails.
func (s *scene) play(ctx context.Context, acts []act) error {
	for _, a := range acts {
		began := time.Now()
		err := a.do(ctx)
		if err == nil && s.stage != nil {
			err = s.listen(ctx, a.phase)
		}
		s.ending.Phases = append(s.ending.Phases, PhaseTime{a.phase, time.Since(began).Seconds()})
		state := "done"
		if err != nil {
			state = "failed"
		}
		s.sink.Event(progress.Event{Op: "drill", Phase: string(a.phase), State: state})
		if s.stage != nil {
			s.told(a.phase)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end leaves the cluster or removes it. Only a drill that came to a verdict
// leaves anything.
func (s *scene) end(ctx context.Context, err error) (cerr error) {
	judged := err == nil || fault.KindOf(err) == fault.Wanting
	if s.keep && judged {
		if s.parting != nil {
			cerr = s.parting(ctx)
		}
		if cerr == nil {
			s.ending.Kept = s.leave()
			return nil
		}
	}
	cleanedUp, serr := s.strike()
	s.ending.CleanedUp = cleanedUp
	return errors.Join(cerr, serr)
}

// wholly is nil where nothing is missing, else the verdict.
func wholly(o Outcome, missing ...[]string) error {
	v := &verdict{outcome: o}
	for _, m := range missing {
		v.missing = append(v.missing, m...)
	}
	if len(v.missing) == 0 {
		return nil
	}
	return v
}
