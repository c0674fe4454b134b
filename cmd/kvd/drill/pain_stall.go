package drill

import (
	"context"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/wait"
)

// Stall is a member that stands still, as one whose machine has no processor for it
// or whose disk hangs.
type Stall struct {
	Member    string  `json:"member"`
	Role      string  `json:"role"` // at that moment
	AtSeconds float64 `json:"at_seconds"`
	Seconds   float64 `json:"seconds"` // 0: the load had ended

	index int
}

// When a member stands still, and for how long, as shares of the load.
const (
	stallBegins = 0.2 // after kvd diagnose has taken its first sample
	stallLasts  = 1. / 3
)

// Waits says how many of a load's writes waited for their answer, those that got none
// among them.
type Waits struct {
	Writes     int64   `json:"writes"`
	OverSecond int64   `json:"over_a_second"`
	Longest    float64 `json:"longest_seconds"`
}

func waitsOf(run *result.Run) Waits {
	write := func(op result.Op) bool { return op.RPC == "txn" && op.Waited() }
	all := run.Latency(write)
	return Waits{Writes: all.Response.Count(), OverSecond: all.Response.AtLeast(time.Second), Longest: all.Response.Max().Seconds()}
}

// waitFigure sets who waited in both runs against each other.
func waitFigure(what string, unit diagnose.Unit, pain, remedied PainRun, of func(Waits) float64) Figure {
	return Figure{What: what, Unit: unit, From: fromGenerator, Pain: of(pain.Waits), Remedied: of(remedied.Waits)}
}

// chooseVictim takes the leader, where the pain wants one to stand still.
func (s *painDrill) chooseVictim(ctx context.Context) (*Stall, error) {
	if !s.p.Stall {
		return nil, nil
	}
	members, view, err := s.members(ctx)
	if err != nil {
		return nil, err
	}
	for i, m := range members {
		if m.ID() == view.Leader {
			return &Stall{Member: s.cluster.Name(i), index: i}, nil
		}
	}
	return nil, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoLeader, Op: "drill", Msg: "the cluster has no leader"}
}

// moveAway does what kvd member move-leader does.
func (s *painDrill) moveAway(ctx context.Context) ([]plan.StepResult, error) {
	view, err := s.client.VotersView(ctx)
	if err != nil {
		return nil, err
	}
	p, err := ops.PlanMoveLeader(s.client, view, ops.MoveLeaderOptions{}, s.sink)
	if err != nil {
		return nil, err
	}
	r, err := p.Run(ctx, nil, s.sink)
	return r.Steps, err
}

// stall has the member stand still for a while. It runs again when it returns.
func (s *painDrill) stall(load context.Context, st *Stall) {
	at := s.o.Warmup + time.Duration(stallBegins*float64(s.o.Duration))
	if wait.For(load, at) != nil {
		return
	}
	st.Role, st.AtSeconds = s.roleOf(load, st.index), at.Seconds()
	began := time.Now()
	if s.cluster.Pause(st.index) != nil {
		return // it has ended, and then so does the load
	}
	_ = wait.For(load, time.Duration(stallLasts*float64(s.o.Duration))) // it runs again when the load ends
	if s.cluster.Resume(st.index) == nil {
		st.Seconds = time.Since(began).Seconds()
	}
}

// roleOf is what a member says of itself.
func (s *painDrill) roleOf(ctx context.Context, i int) string {
	view, err := s.client.View(ctx)
	if err != nil {
		return ""
	}
	m, err := view.FindMember(s.cluster.Name(i))
	if err != nil {
		return ""
	}
	return view.Role(m)
}
