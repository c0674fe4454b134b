package drill

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

func (s *nospace) remedy(ctx context.Context) error {
	if s.o.Remedy == RemedyRaiseQuota {
		return s.raiseQuota(ctx)
	}
	return s.recoverSpace(ctx)
}

// raiseFactor is how many times its old quota a member gets.
const raiseFactor = 4

// raiseQuota restarts the members one by one with a larger quota, shows that
// this alone changes nothing, and disarms.
func (s *nospace) raiseQuota(ctx context.Context) error {
	view, err := s.client.View(ctx)
	if err != nil {
		return err
	}
	s.r.RaisedQuota = raiseFactor * s.o.QuotaBytes
	for _, m := range view.FollowersFirst() {
		if err := s.restart(ctx, m, view.Role(m)); err != nil {
			return err
		}
	}
	if err := s.note(ctx, AfterRestart); err != nil {
		return err
	}
	members, view, err := s.members(ctx)
	if err != nil {
		return err
	}
	s.r.StillAlarms, s.r.StillSaid = view.Alarms, s.attempts(ctx, members)
	if err := wholly(NotRemedied, s.quotaMissing(view), refusedMissing(s.r.StillSaid), alarmMissing(view)); err != nil {
		return err
	}
	p, err := ops.PlanDisarm(s.client, view, ops.DefaultDisarmOptions())
	if err != nil {
		return err
	}
	if s.o.Sabotage != nil {
		s.o.Sabotage(p)
	}
	report, err := p.Run(ctx, nil, s.sink)
	s.r.Disarm = &report
	return notRemedied(ctx, report, err, nil)
}

// quotaMissing lists the members that do not have the raised quota.
func (s *nospace) quotaMissing(v cluster.View) []string {
	var out []string
	for _, m := range v.Members {
		if q := m.Status.EffectiveQuota(); q != s.r.RaisedQuota {
			out = append(out, fmt.Sprintf("%s has a quota of %d, not %d", m.Name, q, s.r.RaisedQuota))
		}
	}
	return out
}

// restart restarts one member with the raised quota and waits until it serves
// and has caught up.
func (s *nospace) restart(ctx context.Context, m cluster.Member, role string) error {
	i, err := s.indexOf(m.Name)
	if err != nil {
		return err
	}
	s.sink.Event(progress.Event{Op: "drill", Subject: m.Name, Phase: "restarting with a larger quota"})
	began := time.Now()
	if err := s.cluster.Restart(ctx, i, fmt.Sprintf("--quota-backend-bytes=%d", s.r.RaisedQuota)); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	if _, _, err := s.measure(ctx, AfterRestart); err != nil {
		return err
	}
	s.r.Restarts = append(s.r.Restarts, Restart{Member: m.Name, Role: role, QuotaBefore: m.Status.EffectiveQuota(),
		QuotaAfter: s.r.RaisedQuota, TookSeconds: time.Since(began).Seconds()})
	return nil
}

func (s *nospace) indexOf(name string) (int, error) {
	for i := range s.cluster.Len() {
		if s.cluster.Name(i) == name {
			return i, nil
		}
	}
	return 0, &fault.Error{Kind: fault.Internal, Op: "drill", Subject: name, Msg: "no such member was started"}
}

// notRemedied is nil where a remedy was carried out in full and nothing is
// missing of its effect; else it is the verdict.
func notRemedied(ctx context.Context, report plan.Report, err error, missing []string) error {
	if ctx.Err() != nil || (err == nil && report.Outcome == plan.OutcomeDone && len(missing) == 0) {
		return err
	}
	for _, step := range report.Steps {
		if step.State == plan.Failed {
			missing = append(missing, fmt.Sprintf("%s: %s failed: %s", step.Subject, step.Action, step.Reason))
		}
	}
	if len(missing) == 0 {
		missing = []string{fmt.Sprintf("the %s plan ended %s", report.Op, report.Outcome)}
	}
	return &verdict{outcome: NotRemedied, missing: missing, err: err}
}
