package drill

import (
	"context"
	"fmt"
	"strings"

	"kvd/pkg/ops"
	"kvd/pkg/ops/plan"
)

// recoverSpace does what `kvd alarm recover` does, with the same plan, and
// measures all members between its stages.
func (s *nospace) recoverSpace(ctx context.Context) error {
	view, err := s.client.View(ctx)
	if err != nil {
		return err
	}
	o := ops.DefaultRecoverOptions()
	p, err := ops.PlanRecover(ctx, s.client, view, o, s.sink)
	if err != nil {
		return err
	}
	if s.o.Sabotage != nil {
		s.o.Sabotage(p)
	}
	s.measureAfter(p, AfterCompact, actCompact)
	s.measureAfter(p, AfterDefrag, actDefrag)
	report, err := p.Run(ctx, nil, s.sink)
	s.r.Recover = &report
	return notRemedied(ctx, report, err, s.notSmaller(o.TargetUsage))
}

// How the actions of a rescue's steps begin.
const (
	actCompact = "compact"
	actDefrag  = "defrag"
)

// measureAfter has the sizes of all members measured after the last step of one
// kind, which is before the next that is to be run.
func (s *nospace) measureAfter(p *plan.Plan, moment, action string) {
	last := -1
	for i, step := range p.Steps {
		if strings.HasPrefix(step.Action, action) {
			last = i
		}
	}
	for i := last + 1; last >= 0 && i < len(p.Steps); i++ {
		step := &p.Steps[i]
		if step.State == plan.Skipped {
			continue
		}
		guard := step.Guard
		step.Guard = func(ctx context.Context) error {
			// Where it can't be measured, the judgement below says so; that is no
			// reason to leave the rescue half-way.
			_ = s.note(ctx, moment)
			if guard == nil {
				return nil
			}
			return guard(ctx)
		}
		return
	}
}

// notSmaller says what compaction and defragmentation should have made smaller
// and have not: first the bytes in use, then the file.
func (s *nospace) notSmaller(target float64) []string {
	full, _ := s.r.SizesAt(AtFull)
	compacted, ok := s.r.SizesAt(AfterCompact)
	if !ok {
		return []string{fmt.Sprintf("no compaction was carried out: %d bytes are still in use on %s", full.MostInUse().DBInUse, full.MostInUse().Name)}
	}
	var out []string
	for i, m := range compacted.Members {
		if m.DBInUse >= full.Members[i].DBInUse {
			out = append(out, fmt.Sprintf("the compaction has freed nothing on %s: %d bytes in use before, %d after it", m.Name, full.Members[i].DBInUse, m.DBInUse))
		}
	}
	small, ok := s.r.SizesAt(AfterDefrag)
	if !ok {
		return append(out, fmt.Sprintf("no defragmentation was carried out: the file of %s still has %d bytes", full.Fullest().Name, full.Fullest().DBSize))
	}
	for _, m := range small.Members {
		if float64(m.DBSize) >= target*float64(m.Quota) {
			out = append(out, fmt.Sprintf("the file of %s has %d bytes, which is not below %.0f%% of its quota of %d", m.Name, m.DBSize, 100*target, m.Quota))
		}
	}
	return out
}
