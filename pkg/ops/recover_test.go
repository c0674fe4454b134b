package ops_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// rescue plans and runs a recovery.
func (p *place) rescue(t *testing.T) (plan.Report, error) {
	t.Helper()
	ctx := servertest.Context(t, 2*time.Minute)
	pl, err := ops.PlanRecover(ctx, p.KVD, p.view(t), ops.DefaultRecoverOptions(), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return pl.Run(ctx, nil, progress.Discard)
}

// writable fails the test unless no alarm is left, every member is below 90 % of
// its quota, and a write through each of them is taken.
func (p *place) writable(t *testing.T) {
	t.Helper()
	v := p.view(t)
	if len(v.Alarms) != 0 {
		t.Errorf("alarms left: %v", v.Alarms)
	}
	for _, m := range v.Members {
		if u, _ := m.Status.UsageRatio(); u >= 0.9 {
			t.Errorf("%s is at %.0f %% of its quota", m.Name, 100*u)
		}
	}
	for _, ep := range p.Endpoints() {
		if _, err := p.Cluster.Client(t, ep).Put(servertest.Context(t, 10*time.Second), p.key(0), strings.Repeat("x", 8192)); err != nil {
			t.Errorf("a put through %s: %v", ep, err)
		}
	}
}

func state(r plan.Report, action string) plan.State {
	for _, s := range r.Steps {
		if strings.HasPrefix(s.Action, action) {
			return s.State
		}
	}
	return ""
}

// Case C02: history fills the file. Compact, defragment, check, disarm, prove.
func TestRecoverFromHistory(t *testing.T)      { recoverFromHistory(t, plain()) }
func TestRecoverFromHistory_more(t *testing.T) { recoverFromHistory(t, otherWorlds()) }

func recoverFromHistory(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			p.fill(t, 50, 8192)
			r, err := p.rescue(t)
			if err != nil || r.Outcome != plan.OutcomeDone {
				t.Fatalf("outcome %s, error %v, steps %+v", r.Outcome, err, r.Steps)
			}
			p.writable(t)
			for _, m := range p.view(t).Members {
				if m.Status.DBSize >= mib {
					t.Errorf("%s: %d bytes after the rescue, want less than 1 MiB", m.Name, m.Status.DBSize)
				}
			}
			if p.oldest(t) <= 1 || p.oldest(t) == p.head(t) {
				t.Errorf("oldest revision %d of %d: want a margin", p.oldest(t), p.head(t))
			}
			last := r.Steps[len(r.Steps)-1]
			if !strings.HasPrefix(last.Action, "prove") || last.State != plan.Done {
				t.Errorf("the last step is %+v, want the proof", last)
			}
		})
	}
}

// Case C01, continued: keys deleted and compacted, never defragmented. Under
// NOSPACE members report stale bytes in use, and are defragmented all the same.
func TestRecoverWhatADisarmWouldNotHold(t *testing.T) { recoverWhatADisarmWouldNotHold(t, plain()) }
func TestRecoverWhatADisarmWouldNotHold_more(t *testing.T) {
	recoverWhatADisarmWouldNotHold(t, otherWorlds())
}

func recoverWhatADisarmWouldNotHold(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			n := p.fill(t, 1<<30, 16<<10)
			p.remove(t, n*9/10)
			p.compact(t, p.head(t))
			r, err := p.rescue(t)
			if err != nil {
				t.Fatalf("%v, steps %+v", err, r.Steps)
			}
			if s := state(r, "defragment"); s != plan.Done {
				t.Errorf("defragment: %s", s)
			}
			p.writable(t)
		})
	}
}

// Case C03: compacted and defragmented, and still over: live data. The alarm
// stays, and what to delete is named.
func TestRecoverStopsBeforeTheDisarmWhereDataIsLive(t *testing.T) {
	recoverStopsBeforeTheDisarmWhereDataIsLive(t, plain())
}
func TestRecoverStopsBeforeTheDisarmWhereDataIsLive_more(t *testing.T) {
	recoverStopsBeforeTheDisarmWhereDataIsLive(t, otherWorlds())
}

func recoverStopsBeforeTheDisarmWhereDataIsLive(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.keyFmt = "/registry/wgpolicyk8s.io/policyreports/ns-%d/report"
			p := w.build(t)
			ctx := servertest.Context(t, time.Minute)
			each(300, func(i int) bool {
				_, err := p.Client.Put(ctx, fmt.Sprintf("/registry/pods/default/p%d", i), "small")
				return err == nil
			})
			p.fill(t, 1<<30, 8192)
			n := p.count(t, "/registry/wgpolicyk8s.io/")
			p.compact(t, p.head(t))
			p.defragAll(t)

			r, err := p.rescue(t)
			if fault.CauseOf(err) != "live_data" {
				t.Fatalf("got %v, want live_data; steps %+v", err, r.Steps)
			}
			if kind := fault.KindOf(err); kind != fault.Refused && kind != fault.Partial {
				t.Errorf("kind %s", kind)
			}
			if !strings.Contains(err.Error(), "policyreports") || !strings.Contains(err.Error(), fmt.Sprintf("%d keys", n)) {
				t.Errorf("%v: want the prefix with its %d keys", err, n)
			}
			if s := state(r, "disarm"); s != plan.Skipped {
				t.Errorf("disarm: %s", s)
			}
			if !p.view(t).HasAlarm(cluster.AlarmNoSpace) {
				t.Error("the alarm is gone")
			}
			if err := p.tryPut(t.Context(), 100); !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Errorf("a put: %v", err)
			}

			// What it asks for works: delete there, run again.
			p.remove(t, n/2)
			if r, err := p.rescue(t); err != nil || r.Outcome != plan.OutcomeDone {
				t.Fatalf("after the deletes: outcome %s, %v", r.Outcome, err)
			}
			p.writable(t)
		})
	}
}

// An alarm of a member that was removed since goes too; CORRUPT forbids it all.
func TestRecoverAlarms(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	p.plant(t, 0xdeadbeef, 1)
	if r, err := p.rescue(t); err != nil || r.Outcome != plan.OutcomeDone || state(r, "disarm") != plan.Done {
		t.Fatalf("outcome %s, error %v", r.Outcome, err)
	}
	p.writable(t)
	p.plant(t, 0xdeadbeef, 2)
	_, err := ops.PlanRecover(t.Context(), p.KVD, p.view(t), ops.DefaultRecoverOptions(), progress.Discard)
	if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != cluster.CauseCorrupt {
		t.Errorf("with CORRUPT raised: %v, want a refusal", err)
	}
}

// A voter that is missing stops it before anything is sent, and a dry run says so:
// no member could be defragmented, and the history would be gone for nothing.
func TestRecoverIsRefusedWhileAVoterIsMissing(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	p.fill(t, 20, 16<<10)
	oldest := p.oldest(t)
	p.Kill((p.Leader(t) + 1) % 3)
	pl, err := ops.PlanRecover(t.Context(), p.KVD, p.view(t), ops.DefaultRecoverOptions(), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	err = pl.Check(t.Context())
	if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != "voter_missing" || fault.HintOf(err) == "" {
		t.Errorf("%v (%s)", err, fault.CauseOf(err))
	}
	if now := p.oldest(t); now != oldest {
		t.Errorf("compacted from %d to %d", oldest, now)
	}
}

// Somebody removes a member in the middle of it: before its turn, and after.
func TestRecoverWhileAMemberIsRemoved_more(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]string{"before its turn": "compact", "after its turn": "defragment"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := world{members: 3, quota: 16 * mib, keyFmt: "k%d"}.build(t)
			p.fill(t, 20, 16<<10)
			ctx := servertest.Context(t, 2*time.Minute)
			view := p.view(t)
			order := ops.DefragOrder(view, view.Members)
			victim := order[0]
			stays := p.Cluster.Client(t, order[1].Endpoint) // who removes itself may stop before it answers
			gone := false
			sink := progress.Func(func(e progress.Event) {
				if e.State == string(plan.Done) && strings.HasPrefix(e.Phase, after) && !gone {
					gone = true
					_, err := stays.MemberRemove(ctx, victim.ID)
					for ; errors.Is(err, rpctypes.ErrUnhealthy); _, err = stays.MemberRemove(ctx, victim.ID) {
						time.Sleep(100 * time.Millisecond) // the members have to be connected for 5 s
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
			pl, err := ops.PlanRecover(ctx, p.KVD, view, ops.DefaultRecoverOptions(), sink)
			if err != nil {
				t.Fatal(err)
			}
			r, err := pl.Run(ctx, nil, sink)
			if err != nil || r.Outcome != plan.OutcomeDone {
				t.Fatalf("outcome %s, error %v, steps %+v", r.Outcome, err, r.Steps)
			}
			for _, s := range r.Steps {
				if s.Subject == victim.Label() && strings.HasPrefix(s.Action, "prove") && s.State != plan.Skipped {
					t.Errorf("a removed member: %+v", s)
				}
			}
			if v := p.view(t); len(v.Members) != 2 || len(v.Alarms) != 0 {
				t.Errorf("%d members, alarms %v", len(v.Members), v.Alarms)
			}
		})
	}
}

// Case C07, continued: the small quota is named as the cause.
func TestRecoverNamesTheSmallQuota_more(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 64 * mib, keyFmt: "k%d"}.build(t)
	if err := p.Restart(servertest.Context(t, 30*time.Second), 2, "--quota-backend-bytes=16777216"); err != nil {
		t.Fatal(err)
	}
	p.fill(t, 1<<30, 64<<10)
	_, err := p.rescue(t)
	if fault.CauseOf(err) != "live_data" || !strings.Contains(fault.HintOf(err), "quotas differ") || !strings.Contains(fault.HintOf(err), p.Name(2)) {
		t.Errorf("%v (hint %q): want the differing quota of %s named", err, fault.HintOf(err), p.Name(2))
	}
}
