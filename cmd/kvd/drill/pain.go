package drill

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
)

// Pain is what a load does to etcd, and the same load as it is once somebody has
// remedied that: same seed, same rate, a fresh cluster. One file has one pain.
type Pain struct {
	Name    string // of the drill
	Symptom string // the finding that it gives while the load runs, and the remedied load does not
	Load    Variant
	Remedy  Variant
	Members int      // there must be, at least
	Args    []string // further flags for each
	Stall   bool     // the member that leads when the cluster starts stands still for a while
	Gauges  []string // metrics of the members to look at meanwhile
	Look    float64  // share of the load that the samples of kvd diagnose are apart, 0: lookShare
	// LookBefore has kvd diagnose take its first sample before the load begins, for a
	// symptom that is a change.
	LookBefore bool
	// Figures sets the two runs against each other. Those with a bound are judged.
	Figures func(pain, remedied PainRun) []Figure
}

// Variant is one way to put the load.
type Variant struct {
	What     string                  // for people: "every kubelet sends its whole Node"
	Command  string                  // of kvd loadgen, as one types it to do the same by hand; without what all runs have
	Scenario func() loadgen.Scenario // a fresh one
	Tune     func(*loadgen.Options)  // changes what suits no scenario's default; may be nil
	Moved    bool                    // the leadership is moved to another member first
}

// PainOptions says how to play the drill of a load.
type PainOptions struct {
	Members    int           // 1 to 5
	QuotaBytes int64         // of each member; 0: etcd's default
	Seed       uint64        // of both loads
	Duration   time.Duration // of each, measured
	Warmup     time.Duration // before that
	Keep       bool          // leave the remedied cluster running, if it came to a verdict
	Dir        string        // as in Options
	Command    local.Command
	Told       func(PainReport, Phase) // as in Options
	// NoRemedy puts the first load again in place of the remedied one. It is for
	// tests, which see with it that a drill without its remedy is not called proved.
	NoRemedy bool
}

// Limits of PainOptions.
const (
	MinPainDuration = 2 * time.Second // the samples of kvd diagnose are most of it apart
	MaxPainDuration = 30 * time.Minute
)

// DefaultPainOptions returns one member and 15 s of each load.
func DefaultPainOptions() PainOptions {
	return PainOptions{Members: 1, Seed: 1, Duration: 15 * time.Second, Warmup: 2 * time.Second}
}

// check finds what is wrong with options. Its errors are of kind Usage.
func (o PainOptions) check() error {
	switch {
	case o.Members < 1 || o.Members > MaxMembers:
		return usage("--members %d: want 1 to %d", o.Members, MaxMembers)
	case o.QuotaBytes != 0 && o.QuotaBytes < MinQuotaBytes:
		return usage("--quota %d: want %d or more", o.QuotaBytes, MinQuotaBytes)
	case o.Duration < MinPainDuration || o.Duration > MaxPainDuration:
		return usage("--duration %s: want %s to %s", o.Duration, MinPainDuration, MaxPainDuration)
	case o.Warmup < 0:
		return usage("--warmup %s: want 0 or more", o.Warmup)
	}
	return checkDir(o.Dir)
}

// painDrill is the scene of a pain.
type painDrill struct {
	scene
	p Pain
	o PainOptions
	r PainReport
}

// PlayPain starts a cluster, puts the load on it with kvd diagnose looking on, and
// does the same with the remedied load on a fresh cluster. It is proved if the
// finding is there under the first and not under the second, and each figure that has
// a bound keeps it. Requests that the generator could not offer, or so many that were not
// answered that the loads did not do the same work, are an error of kind Inconclusive. For the rest see Nospace.
func PlayPain(ctx context.Context, p Pain, o PainOptions, sink progress.Sink) (PainReport, error) {
	if err := o.check(); err != nil {
		return PainReport{}, err
	}
	if o.Members < p.Members {
		return PainReport{}, usage("--members %d: want %d to %d", o.Members, p.Members, MaxMembers)
	}
	for _, v := range []Variant{p.Load, p.Remedy} {
		opts := loadgen.DefaultOptions()
		if v.Tune != nil {
			v.Tune(&opts)
		}
		if err := opts.Check(); err != nil {
			return PainReport{}, err
		}
		if c, ok := v.Scenario().(interface{ Check() error }); ok {
			if err := c.Check(); err != nil {
				return PainReport{}, err
			}
		}
	}
	s := &painDrill{p: p, o: o, r: PainReport{Drill: p.Name, Symptom: p.Symptom, Members: o.Members, Seed: o.Seed, StartedAt: time.Now().UTC()}}
	s.scene = scene{drill: p.Name, symptom: p.Symptom, keep: o.Keep, sink: sink, ending: &s.r.Ending, told: func(ph Phase) {
		if o.Told != nil {
			o.Told(s.r, ph)
		}
	}}
	err := s.perform(ctx, []act{
		{PhaseReproduce, s.reproduce}, {PhaseDiagnose, s.diagnose}, {PhaseRemedy, s.remedy}, {PhaseProve, s.prove},
	})
	return s.r, err
}

// reproduce puts the load. kvd diagnose looks while it runs, and is heard afterwards.
func (s *painDrill) reproduce(ctx context.Context) (err error) {
	s.r.Pain, s.ending.Diagnosed, err = s.run(ctx, s.p.Load)
	return err
}

// diagnose has nothing to do: see listen.
func (*painDrill) diagnose(context.Context) error { return nil }

// remedy puts the remedied load, on a fresh cluster: nothing is left of the other.
func (s *painDrill) remedy(ctx context.Context) (err error) {
	if s.r.Pain.CleanedUp, err = s.strike(); err != nil {
		return err
	}
	s.stage = nil
	v := s.p.Remedy
	if s.o.NoRemedy {
		v = s.p.Load
	}
	s.r.Remedied, s.ending.DiagnosedAfter, err = s.run(ctx, v)
	return err
}

// prove sets the runs against each other.
func (s *painDrill) prove(context.Context) error {
	s.r.Figures = s.p.Figures(s.r.Pain, s.r.Remedied)
	var missing, symptom, slow []string
	for i := range s.r.Figures {
		switch why := s.r.Figures[i].Judge(); {
		case why == "":
		case s.r.Figures[i].tooSlow():
			slow = append(slow, why)
		default:
			missing = append(missing, why)
		}
	}
	if s.ending.DiagnosedAfter.has(s.symptom) {
		symptom = append(symptom, fmt.Sprintf("kvd diagnose still says %s", s.symptom))
	}
	if len(slow) > 0 && len(missing)+len(symptom) == 0 {
		return &fault.Error{Kind: fault.Inconclusive, Cause: "unanswered", Op: "drill " + s.p.Name, Hint: "ask for less load, on a machine that is less busy",
			Msg: fmt.Sprintf("%s; %.0f requests of the one load and %.0f of the other had no answer when it ended, so nothing follows from that",
				strings.Join(slow, "; "), unanswered(s.r.Pain.Load), unanswered(s.r.Remedied.Load))}
	}
	return wholly(NotProved, missing, slow, symptom)
}
