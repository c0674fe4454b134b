package ops_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// disarm plans and runs a disarm.
func (p *place) disarm(t *testing.T, o ops.DisarmOptions) (plan.Report, error) {
	t.Helper()
	pl, err := ops.PlanDisarm(p.KVD, p.view(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return pl.Run(servertest.Context(t, time.Minute), nil, progress.Discard)
}

// Case C01: history compacted, keys deleted, no defrag: a disarm would not hold.
func TestDisarmIsRefusedWhereTheAlarmWouldComeBack(t *testing.T) {
	disarmIsRefusedWhereTheAlarmWouldComeBack(t, plain())
}
func TestDisarmIsRefusedWhereTheAlarmWouldComeBack_more(t *testing.T) {
	disarmIsRefusedWhereTheAlarmWouldComeBack(t, otherWorlds())
}

func disarmIsRefusedWhereTheAlarmWouldComeBack(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			n := p.fill(t, 1<<30, 8192)
			p.remove(t, n*9/10)
			p.compact(t, p.head(t))
			p.committed(t)

			r, err := p.disarm(t, ops.DefaultDisarmOptions())
			if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != "would_come_back" {
				t.Fatalf("got %v, want a refusal", err)
			}
			if r.Outcome != plan.OutcomeFailed {
				t.Errorf("outcome %s, want failed", r.Outcome)
			}
			// Where nobody writes, only the member that compacted for the client
			// has counted its free pages.
			v, least := p.view(t), w.quota
			for _, m := range v.Members {
				least = min(least, m.Status.DBInUse)
				if m.Status.DBSize < w.quota {
					t.Errorf("%s: size %d of %d: the case was not built", m.Name, m.Status.DBSize, w.quota)
				}
			}
			if least > w.quota/3 {
				t.Errorf("in use %d of %d: the case was not built", least, w.quota)
			}
			if !v.HasAlarm(cluster.AlarmNoSpace) {
				t.Error("the refused disarm disarmed")
			}

			// The claim behind the refusal: forced, it does not hold.
			o := ops.DefaultDisarmOptions()
			o.Force = true
			if _, err := p.disarm(t, o); err != nil {
				t.Fatalf("forced: %v", err)
			}
			if err := p.tryPut(t.Context(), 100); !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Errorf("a put after the forced disarm: %v, want no space", err)
			}
		})
	}
}

// Case C04: the quota was raised and the server restarted; the alarm stays, and
// may go now.
func TestDisarmAfterTheQuotaWasRaised(t *testing.T) { disarmAfterTheQuotaWasRaised(t, plain()) }
func TestDisarmAfterTheQuotaWasRaised_more(t *testing.T) {
	disarmAfterTheQuotaWasRaised(t, otherWorlds())
}

func disarmAfterTheQuotaWasRaised(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			p.fill(t, 1<<30, 8192)
			for i := range p.Len() {
				if err := p.Restart(servertest.Context(t, 30*time.Second), i, "--quota-backend-bytes=67108864"); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.tryPut(servertest.Context(t, 20*time.Second), 100); !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatalf("a put after the restart: %v, want no space: the alarm is persistent", err)
			}
			r, err := p.disarm(t, ops.DefaultDisarmOptions())
			if err != nil || r.Outcome != plan.OutcomeDone {
				t.Fatalf("outcome %s, error %v", r.Outcome, err)
			}
			if v := p.view(t); len(v.Alarms) != 0 || v.EffectiveQuota() != 64*mib {
				t.Errorf("alarms %v, quota %d", v.Alarms, v.EffectiveQuota())
			}
			if err := p.tryPut(servertest.Context(t, 20*time.Second), 8192); err != nil {
				t.Errorf("a put after the disarm: %v", err)
			}
		})
	}
}

// Case C06: without a quorum the alarm is still seen, and a disarm says what it
// waits for.
func TestAlarmWithoutQuorum(t *testing.T)      { alarmWithoutQuorum(t, 3) }
func TestAlarmWithoutQuorum_more(t *testing.T) { alarmWithoutQuorum(t, 5) }

func alarmWithoutQuorum(t *testing.T, sizes ...int) {
	t.Parallel()
	for _, members := range sizes {
		p := world{members: members, quota: 16 * mib, keyFmt: "k%d"}.build(t)
		p.fill(t, 1<<30, 64<<10)
		for i := 1; i <= members/2+1; i++ {
			p.Kill(i)
		}
		v := p.view(t)
		if !v.HasAlarm(cluster.AlarmNoSpace) {
			t.Errorf("%d members: the alarm is not seen without a quorum", members)
		}
		if got, want := len(v.Answered()), members-members/2-1; got != want {
			t.Errorf("%d members: %d answered, want %d", members, got, want)
		}
		began := time.Now()
		_, err := p.disarm(t, ops.DefaultDisarmOptions())
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "voters answer") {
			t.Errorf("%d members: disarm: %v, want unavailable with the count of voters", members, err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("%d members: it took %s to say so", members, took)
		}
	}
}

// Exactly what was asked for is disarmed: an alarm of a removed member too, and
// CORRUPT never by accident.
func TestDisarmIsExact(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	const gone = 0xdeadbeef
	p.plant(t, gone, pb.AlarmType_NOSPACE)
	p.plant(t, gone, pb.AlarmType_CORRUPT)

	r, err := p.disarm(t, ops.DefaultDisarmOptions())
	if err != nil || r.Outcome != plan.OutcomeDone || len(r.Steps) != 1 {
		t.Fatalf("steps %v, outcome %s, error %v: want one alarm disarmed", r.Steps, r.Outcome, err)
	}
	v := p.view(t)
	if v.HasAlarm(cluster.AlarmNoSpace) || !v.HasAlarm(cluster.AlarmCorrupt) {
		t.Errorf("alarms left: %v, want CORRUPT only", v.Alarms)
	}
	if v.Alarms[0].InMemberList {
		t.Error("the alarm's member is not in the list")
	}

	corrupt := ops.DisarmOptions{Type: cluster.AlarmCorrupt}
	if _, err := p.disarm(t, corrupt); fault.KindOf(err) != fault.Refused {
		t.Errorf("disarming CORRUPT: %v, want a refusal", err)
	}
	corrupt.Force, corrupt.Member = true, "deadbeef"
	if _, err := p.disarm(t, corrupt); err != nil {
		t.Errorf("disarming CORRUPT by force: %v", err)
	}
	if v := p.view(t); len(v.Alarms) != 0 {
		t.Errorf("alarms left: %v", v.Alarms)
	}
	if r, err := p.disarm(t, ops.DefaultDisarmOptions()); err != nil || r.Outcome != plan.OutcomeNothing {
		t.Errorf("with no alarm: outcome %s, error %v", r.Outcome, err)
	}
}

// Case C07: one member with a small quota caps everybody.
func TestOneSmallQuotaCapsTheCluster(t *testing.T)      { oneSmallQuotaCapsTheCluster(t, 2) }
func TestOneSmallQuotaCapsTheCluster_more(t *testing.T) { oneSmallQuotaCapsTheCluster(t, 1) }

func oneSmallQuotaCapsTheCluster(t *testing.T, which ...int) {
	t.Parallel()
	for _, small := range which {
		p := world{members: 3, quota: 64 * mib, keyFmt: "k%d"}.build(t)
		if err := p.Restart(servertest.Context(t, 30*time.Second), small, "--quota-backend-bytes=16777216"); err != nil {
			t.Fatal(err)
		}
		p.fill(t, 1<<30, 64<<10)
		v := p.view(t)
		if v.EffectiveQuota() != 16*mib {
			t.Errorf("effective quota %d, want 16 MiB", v.EffectiveQuota())
		}
		if len(v.Alarms) != 1 || v.Alarms[0].MemberName != p.Name(small) {
			t.Errorf("alarms %+v, want one of %s", v.Alarms, p.Name(small))
		}
		_, err := p.disarm(t, ops.DefaultDisarmOptions())
		if fault.KindOf(err) != fault.Refused || !strings.Contains(err.Error(), p.Name(small)) {
			t.Errorf("disarm: %v, want a refusal that names %s", err, p.Name(small))
		}
	}
}

// plant raises an alarm of any member through etcd's own RPC.
func (p *place) plant(t *testing.T, member uint64, typ pb.AlarmType) {
	t.Helper()
	_, err := pb.NewMaintenanceClient(p.Client.ActiveConnection()).Alarm(t.Context(),
		&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: typ})
	if err != nil {
		t.Fatal(err)
	}
}
