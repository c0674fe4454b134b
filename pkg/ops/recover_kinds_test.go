package ops_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// A learner's file counts like a voter's, and no request defragments it (etcd issue
// 21740): that is said as it is, and not that live data fills it.
func TestRecoverNamesALearnersFile_more(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 8 * mib, keyFmt: "/registry/pods/default/p%d"}.build(t)
	i, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	addLearner(t, p.Cluster, i)
	p.fill(t, 20, 8192)
	ctx := servertest.Context(t, 2*time.Minute)
	pl, err := ops.PlanRecover(ctx, p.KVD, p.view(t), ops.DefaultRecoverOptions(), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pl.Notes, func(n string) bool {
		return strings.Contains(n, p.Name(i)) && strings.Contains(n, "is a learner") && strings.Contains(n, "kvd member promote "+p.Name(i))
	}) {
		t.Errorf("no note of the learner: %q", pl.Notes)
	}
	_, err = pl.Run(ctx, nil, progress.Discard)
	hint := fault.HintOf(err)
	if fault.CauseOf(err) != "learner_file" || !strings.Contains(hint, "member promote") || !strings.Contains(hint, "member remove") ||
		!strings.Contains(hint, "--bootstrap-defrag-threshold-megabytes") || strings.Contains(err.Error()+hint, "keys delete") {
		t.Fatalf("error %v, hint %q", err, hint)
	}
	// It is true: disarmed by force, the alarm is back with the next write, raised by the learner.
	v := p.view(t)
	o := ops.DefaultDisarmOptions()
	pl, err = ops.PlanDisarm(p.KVD, v, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = pl.Run(ctx, nil, progress.Discard); fault.CauseOf(err) != "would_come_back" || strings.Contains(fault.HintOf(err), "alarm recover") || !strings.Contains(err.Error(), "member promote") {
		t.Errorf("disarm: %v, hint %q", err, fault.HintOf(err))
	}
	o.Force = true
	if pl, err = ops.PlanDisarm(p.KVD, v, o); err != nil {
		t.Fatal(err)
	}
	if _, err = pl.Run(ctx, nil, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if err := p.tryPut(ctx, 10); err != nil {
		t.Fatal(err)
	}
	p.committed(t)
	learner, _ := v.FindMember(p.Name(i))
	if v = p.view(t); len(v.Alarms) != 1 || v.Alarms[0].MemberID != learner.ID {
		t.Fatalf("alarms %+v, want one of the learner", v.Alarms)
	}
	if r := p.quotaReport(t); !slices.ContainsFunc(r.Findings, func(f ops.Finding) bool {
		return f.Cause == ops.FindNearlyFull && f.Member == p.Name(i) && strings.Contains(f.Hint, "member promote")
	}) || strings.Contains(causes(r), ops.FindLive) {
		t.Errorf("findings %+v", r.Findings)
	}
	// And the way out that is named is one.
	if _, err := p.Client.MemberPromote(ctx, learner.ID); err != nil {
		t.Fatal(err)
	}
	if r, err := p.rescue(t); err != nil || r.Outcome != plan.OutcomeDone {
		t.Fatalf("after the promotion: %s, %v, %+v", r.Outcome, err, r.Steps)
	}
	p.writable(t)
}

// Leases are records too, and those that are appended leave pages half empty, which
// count as in use (gravitational/teleport 16636): a defragmentation wins what no free
// page shows.
func TestRecoverFromLeases_more(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 2 * mib, keyFmt: "/registry/pods/default/p%d"}.build(t)
	p.put(t, 20, 20, 1024)
	first := p.fillWithLeases(t)
	r := p.quotaReport(t)
	f := r.File
	t.Logf("%d leases: %+v of %d, history %.0f, reclaimable %.0f", first, f.Leases, f.DBSize, f.History.Bytes, f.Reclaimable.Bytes)
	if got := causes(r); !strings.HasSuffix(got, "nearly_full leases_fill_file") || f.Leases == nil || f.Leases.Count < int64(first) {
		t.Fatalf("findings %s, leases %+v", got, f.Leases)
	}
	held := float64(f.InUse) - f.Live.Bytes // history is 20 records of 1 KiB
	near(t, "bytes of leases", f.Leases.Bytes.Bytes, held, f.Leases.Bytes.Error/held+0.05)
	rep, err := p.rescue(t)
	if err != nil || rep.Outcome != plan.OutcomeDone || state(rep, "defragment") != plan.Done {
		t.Fatalf("%s, %v, %+v", rep.Outcome, err, rep.Steps)
	}
	p.writable(t)
	if packed := p.view(t).Members[0].Status.DBSize; float64(packed) > 0.65*float64(f.DBSize) {
		t.Errorf("packed from %d to %d only", f.DBSize, packed)
	}
}

// Members that were not defragmented are those whose file counts (etcd issues 12218
// and 12219): it is theirs that is split, whoever was read.
func TestQuotaSplitsTheFullestFile(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 8 * mib, keyFmt: "/registry/pods/default/p%d"}.build(t)
	p.fill(t, 20, 8192)
	p.compact(t, p.head(t))
	left := p.Leader(t) // which is read last
	for i, ep := range p.Endpoints() {
		if i == left {
			continue
		}
		if _, err := p.Client.Defragment(servertest.Context(t, time.Minute), ep); err != nil {
			t.Fatal(err)
		}
	}
	r := p.quotaReport(t)
	for deadline := time.Now().Add(time.Minute); r.File.FreeRatio < 0.9 && time.Now().Before(deadline); r = p.quotaReport(t) {
		p.committed(t) // who was not asked compacts at its own pace
	}
	if f := r.File; f.Member != p.Name(left) || f.FreeRatio < 0.9 || r.Content.Member == f.Member {
		t.Errorf("file of %s: %.2f free; read from %s", f.Member, f.FreeRatio, r.Content.Member)
	}
	if got := causes(r); !strings.HasSuffix(got, "nearly_full free_pages_fill_file") {
		t.Errorf("findings %s", got)
	}
	// Once that is done, too, the alarm stays, and no file is full.
	p.defragAll(t)
	r = p.quotaReport(t)
	if got := causes(r); !strings.HasSuffix(got, "nospace_probe") || !strings.Contains(r.Findings[0].Hint, "kvd alarm disarm") {
		t.Errorf("findings %s, first %+v", got, r.Findings[0])
	}
}

// A snapshot that is not read to its end holds on to all pages (etcd issue 18509): what
// is compacted does not become free, so that a rescue would cut off all readers up to
// the head for nothing, and stop at the defragmentation.
func TestRecoverLeavesHistoryAloneWhileASnapshotIsSent(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 8 * mib, keyFmt: "/registry/pods/default/p%d"}.build(t)
	p.put(t, 200, 20, 8192)
	ctx, cancel := context.WithCancel(servertest.Context(t, 2*time.Minute))
	defer cancel()
	stream, err := p.Client.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.fill(t, 20, 8192)
	if r, err := p.rescue(t); fault.CauseOf(err) != "snapshot_inflight" || r.Outcome == plan.OutcomeDone || p.oldest(t) > 1 {
		t.Fatalf("%s, %v; the oldest revision is %d", r.Outcome, err, p.oldest(t))
	}
	pl, err := ops.PlanRecover(t.Context(), p.KVD, p.view(t), ops.DefaultRecoverOptions(), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := pl.Check(t.Context()); fault.CauseOf(err) != "snapshot_inflight" {
		t.Errorf("a dry run: %v", err)
	}
	p.compact(t, p.head(t)) // as somebody else does
	if got := causes(p.quotaReport(t)); !strings.HasSuffix(got, "nearly_full held_pages_fill_file") {
		t.Errorf("findings %s", got)
	}
	cancel()
	stream.Close()
	for deadline := time.Now().Add(20 * time.Second); ; p.committed(t) {
		r, err := p.rescue(t)
		if err == nil && r.Outcome == plan.OutcomeDone {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after its end: %s, %v", r.Outcome, err)
		}
	}
	p.writable(t)
}

// A quota below what an empty database takes was meant in another unit.
func TestATinyQuotaIsNamed(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 8, keyFmt: "/x%d"}.build(t)
	p.fill(t, 1, 10)
	if got := causes(p.quotaReport(t)); !strings.Contains(got, ops.FindQuotaTiny) {
		t.Errorf("findings %s", got)
	}
	if _, err := p.rescue(t); fault.CauseOf(err) != ops.FindQuotaTiny || strings.Contains(fault.HintOf(err), "keys delete") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}

// fillWithLeases grants leases without keys until etcd refuses, and returns how many.
func (p *place) fillWithLeases(t *testing.T) int {
	t.Helper()
	ctx := servertest.Context(t, 2*time.Minute)
	n := each(1<<30, func(int) bool { _, err := p.Client.Grant(ctx, 86400); return err == nil })
	p.committed(t)
	return n
}
