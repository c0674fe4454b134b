package drill

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
)

// Said is what kvd diagnose says of the cluster at one moment.
type Said struct {
	Findings []diagnose.Finding `json:"findings"`
	Error    string             `json:"error,omitempty"` // where nobody answers
	// NotLooked is what it could not look at, though it was to.
	NotLooked []diagnose.NotLooked `json:"not_looked,omitempty"`
}

// has reports whether it says so.
func (s *Said) has(id string) bool {
	return s != nil && diagnose.Report{Findings: s.Findings}.Has(id)
}

// without says why it may be that nothing is said of a finding though it is there:
// something that its check needs could not be had. Empty: it is not there.
func (s *Said) without(id string) string {
	if s.Error != "" {
		return s.Error
	}
	for _, c := range diagnose.Checks() {
		for _, n := range s.NotLooked {
			if n.Check == c.Name && slices.Contains(c.IDs, id) {
				return strings.TrimPrefix(n.Subject+": ", ": ") + n.Why
			}
		}
	}
	return ""
}

// saidInterval is between its two samples: a drill has no load that a longer look
// would show.
const saidInterval = 500 * time.Millisecond

// say has kvd diagnose look, as a user would who does not know what was done.
func (s *scene) say(ctx context.Context, interval time.Duration, sink progress.Sink) *Said {
	o := diagnose.DefaultCollectOptions()
	o.Interval, o.Layout = interval, layout()
	s.sink.Event(progress.Event{Op: "drill", Phase: "kvd diagnose"})
	in, err := diagnose.Collect(ctx, s.client, o, sink)
	if err != nil {
		return &Said{Findings: []diagnose.Finding{}, Error: fault.Why(err)}
	}
	r := diagnose.Diagnose(in)
	return &Said{Findings: r.Findings, NotLooked: slices.DeleteFunc(r.NotLooked, func(n diagnose.NotLooked) bool { return n.ByChoice })}
}

// listen has the findings between the pain and the remedy, and afterwards, in the
// report. A symptom that is not seen before or still seen after keeps the drill from
// being proved; one that could not be looked for is an error of kind Inconclusive.
func (s *scene) listen(ctx context.Context, p Phase) error {
	switch p {
	case PhaseDiagnose:
		if s.ending.Diagnosed == nil { // a load has it look on meanwhile
			s.ending.Diagnosed = s.say(ctx, saidInterval, progress.Discard)
		}
		if s.symptom != "" && !s.ending.Diagnosed.has(s.symptom) {
			if err := s.unseen(s.ending.Diagnosed); err != nil {
				return err
			}
			return wholly(NotReproduced, []string{"kvd diagnose does not say " + s.symptom})
		}
	case PhaseProve:
		if s.ending.DiagnosedAfter == nil {
			s.ending.DiagnosedAfter = s.say(ctx, saidInterval, progress.Discard)
		}
		if s.ending.DiagnosedAfter.has(s.symptom) {
			return wholly(NotProved, []string{"kvd diagnose still says " + s.symptom})
		}
		if s.symptom != "" {
			return s.unseen(s.ending.DiagnosedAfter)
		}
	case PhaseReproduce, PhaseRemedy, PhaseEnd:
	}
	return nil
}

// unseen is the error where the symptom may be there unseen.
func (s *scene) unseen(said *Said) error {
	why := said.without(s.symptom)
	if why == "" {
		return nil
	}
	return &fault.Error{Kind: fault.Inconclusive, Cause: "not_diagnosed", Op: "drill " + s.drill, Msg: fmt.Sprintf("kvd diagnose could not look whether there is %s: %s", s.symptom, why),
		Hint: "play it again, on a machine that is less busy"}
}

// layout has it know the objects of kvd loadgen as well, as --kube-prefix does.
func layout() keys.Layout { return keys.Default().With(loadgen.DefaultOptions().Prefix) }
