package drill

import (
	"context"
	"fmt"
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
}

// has reports whether it says so.
func (s *Said) has(id string) bool {
	return s != nil && diagnose.Report{Findings: s.Findings}.Has(id)
}

// saidInterval is between its two samples: a drill has no load that a longer look
// would show.
const saidInterval = 500 * time.Millisecond

// say has kvd diagnose look, as a user would who does not know what was done.
func (s *scene) say(ctx context.Context, interval time.Duration) *Said {
	o := diagnose.DefaultCollectOptions()
	o.Interval, o.Layout = interval, layout()
	s.sink.Event(progress.Event{Op: "drill", Phase: "kvd diagnose"})
	in, err := diagnose.Collect(ctx, s.client, o, progress.Discard)
	if err != nil {
		return &Said{Findings: []diagnose.Finding{}, Error: fault.Why(err)}
	}
	return &Said{Findings: diagnose.Diagnose(in).Findings}
}

// listen has the findings between the pain and the remedy, and afterwards, in the
// report. A symptom that is not seen before or still seen after keeps the drill from
// being proved.
func (s *scene) listen(ctx context.Context, p Phase) error {
	switch p {
	case PhaseDiagnose:
		if s.ending.Diagnosed == nil { // a load has it look on meanwhile
			s.ending.Diagnosed = s.say(ctx, saidInterval)
		}
		if s.symptom != "" && !s.ending.Diagnosed.has(s.symptom) {
			return wholly(NotReproduced, []string{fmt.Sprintf("kvd diagnose does not say %s", s.symptom)})
		}
	case PhaseProve:
		if s.ending.DiagnosedAfter == nil {
			s.ending.DiagnosedAfter = s.say(ctx, saidInterval)
		}
		if s.ending.DiagnosedAfter.has(s.symptom) {
			return wholly(NotProved, []string{fmt.Sprintf("kvd diagnose still says %s", s.symptom)})
		}
	case PhaseReproduce, PhaseRemedy, PhaseEnd:
	}
	return nil
}

// layout has it know the objects of kvd loadgen as well, as --kube-prefix does.
func layout() keys.Layout { return keys.Default().With(loadgen.DefaultOptions().Prefix) }
