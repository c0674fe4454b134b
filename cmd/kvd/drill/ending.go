package drill

import (
	"context"
	"errors"

	"kvd/pkg/ops/fault"
)

// Phase is a part of a drill.
type Phase string

// The phases, in their order.
const (
	PhaseReproduce Phase = "reproduce"
	PhaseDiagnose  Phase = "diagnose"
	PhaseRemedy    Phase = "remedy"
	PhaseProve     Phase = "prove"
	PhaseEnd       Phase = "end" // what is left of it: nothing, or a cluster to play with
)

// Outcome says how a drill ended.
type Outcome string

// The outcomes. Only proved is a success.
const (
	Proved        Outcome = "proved"         // it was full, it was remedied, and writes through every member say so
	NotFull       Outcome = "not_full"       // NOSPACE was not reached, or a write passed in spite of it
	NotReproduced Outcome = "not_reproduced" // what the drill is about did not come about
	NotRemedied   Outcome = "not_remedied"
	NotProved     Outcome = "not_proved"
	Interrupted   Outcome = "interrupted"
	Failed        Outcome = "failed" // something else broke, so that nothing can be said
)

// Ending is how a drill ended; every report has it.
type Ending struct {
	Diagnosed      *Said `json:"kvd_diagnose,omitempty"`       // between the pain and the remedy
	DiagnosedAfter *Said `json:"kvd_diagnose_after,omitempty"` // when all was proved

	Missing     []string    `json:"missing,omitempty"` // what kept the drill from being proved
	Outcome     Outcome     `json:"outcome"`
	Phases      []PhaseTime `json:"phases"`
	Kept        *Kept       `json:"kept,omitempty"`
	CleanedUp   *CleanedUp  `json:"cleaned_up,omitempty"`
	TookSeconds float64     `json:"took_seconds"`
}

// PhaseTime is how long a phase took.
type PhaseTime struct {
	Phase       Phase   `json:"phase"`
	TookSeconds float64 `json:"took_seconds"`
}

// Kept is how to reach a cluster that was left running, and how to end it.
type Kept struct {
	Export string `json:"export"`
	Status string `json:"status"`
	PIDs   []int  `json:"pids"`
	Dir    string `json:"dir"`
	Stop   string `json:"stop"`
}

// CleanedUp is what was ended and removed.
type CleanedUp struct {
	Processes int    `json:"processes"`
	Dir       string `json:"dir"`
}

// verdict is an error that ends a drill with a judgement: it was played, and it
// did not come out as it should.
type verdict struct {
	outcome Outcome
	missing []string
	err     error // behind it, if there is one
}

func (v *verdict) Error() string { return string(v.outcome) }

// conclude turns how the phases ended into the outcome and the error to return.
func (r *Ending) conclude(ctx context.Context, drill string, err error) error {
	var v *verdict
	switch {
	case err == nil:
		r.Outcome = Proved
		return nil
	case ctx.Err() != nil:
		r.Outcome = Interrupted
		return &fault.Error{Kind: fault.Interrupted, Op: "drill", Msg: "interrupted; its cluster was ended and removed"}
	case errors.As(err, &v):
		r.Outcome, r.Missing = v.outcome, v.missing
		e := &fault.Error{Kind: fault.Wanting, Cause: string(v.outcome), Op: "drill " + drill, Msg: v.missing[0], Err: v.err}
		e.Hint = "the report says how far it came; `--keep` leaves the cluster running to look at"
		return e
	default:
		r.Outcome, r.Missing = Failed, []string{err.Error()}
		return err
	}
}
