package drill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// nospace is the scene in which the quota is reached and the cluster becomes
// read-only.
type nospace struct {
	scene
	o         Options
	load      *load
	compactor compactor
	atFull    cluster.View
	r         Report
}

// Nospace plays the scene and returns what was done and measured; the report is
// complete also beside an error. The error is nil only if the cluster was really
// full, refused a write through every member, and after the remedy took one
// through every member with no alarm left. It is of kind Wanting where that did
// not come about.
//
// Unless the cluster is kept, no process and no file is left when Nospace
// returns, however it ends.
func Nospace(ctx context.Context, o Options, sink progress.Sink) (Report, error) {
	if err := o.check(); err != nil {
		return Report{}, err
	}
	s := &nospace{o: o, r: Report{
		Drill: "nospace", Remedy: o.Remedy, Members: o.Members, QuotaBytes: o.QuotaBytes, StartedAt: time.Now().UTC(),
		Compactor: CompactorReport{Key: keys.CompactRevKey},
	}}
	s.scene = scene{drill: s.r.Drill, symptom: "KVD-SPACE-001", keep: o.Keep, sink: sink, ending: &s.r.Ending, told: func(p Phase) {
		if o.Told != nil {
			o.Told(s.r, p)
		}
	}}
	err := s.perform(ctx, []act{
		{PhaseReproduce, s.reproduce}, {PhaseDiagnose, s.diagnose}, {PhaseRemedy, s.remedy}, {PhaseProve, s.prove},
	})
	return s.r, err
}

// compactorTurn is the share of the quota that is written, in bytes of keys and
// values, when the compactor has its second round, the last one that works.
const compactorTurn = 0.3

// fillLimit is how many times the quota may be written before the fill gives up.
const fillLimit = 4

// reproduce starts the cluster, fills it, and shows that it is read-only.
func (s *nospace) reproduce(ctx context.Context) error {
	began := time.Now()
	var err error
	if s.stage, err = newStage(ctx, s.o.setting(), s.sink); err != nil {
		return err
	}
	s.r.StartSeconds = time.Since(began).Seconds()
	s.r.Endpoints, s.r.Dir = s.cluster.Endpoints(), s.root
	if err := s.note(ctx, AtStart); err != nil {
		return err
	}
	if err := s.fill(ctx); err != nil {
		return err
	}
	return s.showPain(ctx)
}

// note measures the members' sizes into the report.
func (s *nospace) note(ctx context.Context, phase string) error {
	sizes, _, err := s.measure(ctx, phase)
	if err != nil {
		return err
	}
	s.r.Sizes = append(s.r.Sizes, sizes)
	return nil
}

// fill writes what Kubernetes writes until the first write is refused.
func (s *nospace) fill(ctx context.Context) error {
	members, _, err := s.members(ctx)
	if err != nil {
		return err
	}
	s.load = newLoad(s.o.QuotaBytes, members)
	began := time.Now()
	s.sink.Event(progress.Event{Op: "drill", Phase: "creating objects"})
	if err := s.load.create(ctx); err != nil {
		return err
	}
	if _, err := s.compactor.round(ctx, members[0].Etcd()); err != nil {
		return members[0].Explain(ctx, "compact", err)
	}
	err = s.update(ctx, members[0])
	s.r.FillSeconds = time.Since(began).Seconds()
	s.r.WritesUntilFull, s.r.BytesUntilFull, s.r.Written = s.load.writes.Load(), s.load.bytes.Load(), s.load.written()
	if err != nil {
		return err
	}
	if !s.load.full.Load() {
		return &verdict{outcome: NotFull, missing: []string{fmt.Sprintf(
			"%d bytes were written against a quota of %d, and no write was refused", s.r.BytesUntilFull, s.o.QuotaBytes)}}
	}
	s.r.RefusedWriteError = s.load.firstRefusal
	return nil
}

// update writes into the objects until the cluster is full, and lets the
// compactor have its turn before. When that is goes by what was written, not by
// sizes: these are as of the last commit, and a quick machine fills a small quota
// between two looks.
func (s *nospace) update(ctx context.Context, m *cluster.MemberClient) error {
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); s.watchFill(watching, m) }()
	defer func() { stop(); <-watched }()
	if err := s.load.run(ctx, s.written(int64(compactorTurn*float64(s.o.QuotaBytes)))); err != nil {
		return err
	}
	for try := 1; s.r.Compactor.CompactedTo == 0; try++ {
		to, err := s.compactor.round(ctx, m.Etcd())
		if err != nil {
			err = m.Explain(ctx, "compact", err)
			if try == retries || fault.KindOf(err) != fault.Unavailable || wait.For(ctx, retryPause) != nil {
				return err
			}
		}
		s.r.Compactor.CompactedTo = to
	}
	return s.load.run(ctx, s.written(fillLimit*s.o.QuotaBytes))
}

// written says whether so many bytes were written.
func (s *nospace) written(limit int64) func() bool {
	return func() bool { return s.load.bytes.Load() >= limit }
}

// watchFill tells how large one member's file is while it is filled.
func (s *nospace) watchFill(ctx context.Context, m *cluster.MemberClient) {
	for {
		if st, err := m.Status(ctx); err == nil {
			s.sink.Event(progress.Event{Op: "drill", Phase: "filling", Done: st.DBSize, Total: s.o.QuotaBytes, Unit: "bytes"})
		}
		if wait.For(ctx, commitPause) != nil {
			return
		}
	}
}

// showPain tries what Kubernetes would try now, through each member.
func (s *nospace) showPain(ctx context.Context) error {
	members, _, err := s.members(ctx)
	if err != nil {
		return err
	}
	s.r.Refused = s.attempts(ctx, members)
	s.r.Compactor.NextRev = s.compactor.rev
	tried := s.compactor // a copy: what is refused changes nothing
	if _, err := tried.round(ctx, members[0].Etcd()); err != nil {
		s.r.Compactor.Error = err.Error()
	}
	sizes, view, err := s.measure(ctx, AtFull)
	if err != nil {
		return err
	}
	s.r.Sizes, s.r.Alarms, s.atFull = append(s.r.Sizes, sizes), view.Alarms, view
	return wholly(NotFull, refusedMissing(s.r.Refused), compactorMissing(s.r.Compactor.Error), alarmMissing(view))
}

// attempts renews one node's Lease through each member, as its kubelet does.
func (s *nospace) attempts(ctx context.Context, members []*cluster.MemberClient) []Attempt {
	var out []Attempt
	leases := s.load.leases()
	for i, m := range members {
		o := leases[i%len(leases)]
		began := time.Now()
		size, err := putOnce(ctx, m, o, 0)
		if size == 0 && err == nil { // an attempt of the fill whose answer was lost; now its revision is known
			size, err = putOnce(ctx, m, o, 0)
		}
		a := Attempt{Member: s.cluster.Name(i), Endpoint: m.Endpoint(), Key: o.key, TookSeconds: time.Since(began).Seconds()}
		switch {
		case err != nil:
			a.Cause, a.Error = fault.CauseOf(m.Explain(ctx, "put", err)), err.Error()
		case size == 0:
			a.Cause, a.Error = "conflict", "somebody else keeps writing this key"
		default:
			a.Revision = o.modRev
		}
		out = append(out, a)
	}
	return out
}

// diagnose finds out what fills the files: it reads one follower, since the
// leader has enough to do.
func (s *nospace) diagnose(ctx context.Context) error {
	sizes, _ := s.r.SizesAt(AtFull)
	view := s.atFull
	who := view.FollowersFirst()[0]
	m, err := s.client.Member(who.ID)
	if err != nil {
		return err
	}
	u, err := keyspace.Look(ctx, m, keyspace.DefaultLookOptions(), s.sink)
	if err != nil {
		return err
	}
	d := Diagnosis{Member: who.Name, Oldest: u.Oldest, Head: u.Revision, LiveKeys: u.Keys,
		LiveBytes: int64(u.InPages.Bytes), EffectiveQuota: view.EffectiveQuota()}
	i := slices.IndexFunc(sizes.Members, func(x MemberSize) bool { return x.Name == who.Name })
	d.InUseBytes, d.FreeBytes = sizes.Members[i].DBInUse, sizes.Members[i].DBSize-sizes.Members[i].DBInUse
	d.HistoryBytes = max(0, d.InUseBytes-d.LiveBytes)
	d.HistoryRatio = float64(d.HistoryBytes) / float64(d.InUseBytes)
	for _, g := range u.Groups {
		name := g.Resource
		if name == "" {
			name = "(not of Kubernetes' API)" // the compactor's marker
		}
		d.Resources = append(d.Resources, ResourceUsage{Resource: name, Keys: g.Keys, LiveBytes: int64(g.Bytes.Bytes), History: g.History, Share: g.Share})
	}
	s.r.Diagnosis = d
	return nil
}
