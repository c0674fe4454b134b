package drill

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
	"kvd/pkg/server/local"
)

// StaleOptions says how to play a stale-read drill.
type StaleOptions struct {
	Members int           // 3 to 5
	Reads   int           // of each kind, at each moment
	Writes  int           // while the follower is cut off
	Timeout time.Duration // of a read that is not going to be answered
	Keep    bool          // leave the cluster running, if it came to a verdict
	Dir     string        // as in Options
	Command local.Command
	Told    func(StaleReport, Phase) // as in Options
	// Sabotage is for tests, which see with it that a drill without the cut, or
	// without the mend, is not called proved.
	Sabotage StaleSabotage
}

// StaleSabotage leaves something out.
type StaleSabotage struct{ NoCut, NoMend bool }

// Limits of StaleOptions.
const (
	MinStaleMembers = 3 // fewer have no majority without the one that is cut off
	MaxStaleReads   = 10_000
	MaxStaleWrites  = 4_000 // the follower is to catch up from the leader's log, which keeps 5,000 entries
	MaxStaleTimeout = time.Minute
	minStaleTimeout = 100 * time.Millisecond
)

// DefaultStaleOptions returns three members, 200 reads of each kind, 100 writes.
func DefaultStaleOptions() StaleOptions {
	return StaleOptions{Members: MinStaleMembers, Reads: 200, Writes: 100, Timeout: 3 * time.Second}
}

func (o StaleOptions) check() error {
	switch {
	case o.Members < MinStaleMembers || o.Members > MaxMembers:
		return usage("--members %d: want %d to %d", o.Members, MinStaleMembers, MaxMembers)
	case o.Reads < 1 || o.Reads > MaxStaleReads:
		return usage("--reads %d: want 1 to %d", o.Reads, MaxStaleReads)
	case o.Writes < 1 || o.Writes > MaxStaleWrites:
		return usage("--writes %d: want 1 to %d", o.Writes, MaxStaleWrites)
	case o.Timeout < minStaleTimeout || o.Timeout > MaxStaleTimeout:
		return usage("--timeout %s: want %s to %s", o.Timeout, minStaleTimeout, MaxStaleTimeout)
	}
	return checkDir(o.Dir)
}

// stale is the scene in which a follower hears nothing any more and still
// answers.
type stale struct {
	scene
	o                StaleOptions
	follower, leader *cluster.MemberClient
	index            int       // of the follower
	cutAt            time.Time // when it was cut off
	firstMissed      time.Time // when the first write was acknowledged that it did not get
	version          int       // of the value last written
	r                StaleReport
}

const staleKey = "/kvd-drill/stale-read/setting"

// StaleRead plays the scene: reads of both kinds through a follower, before,
// while and after it is cut off from its peers. The error is nil only if, cut
// off, it answered serializable reads with old data and no linearizable one at
// all, and everything was fresh before and after. For the rest see Nospace.
func StaleRead(ctx context.Context, o StaleOptions, sink progress.Sink) (StaleReport, error) {
	if err := o.check(); err != nil {
		return StaleReport{}, err
	}
	s := &stale{o: o, r: StaleReport{Drill: "stale-read", Members: o.Members, StartedAt: time.Now().UTC(), Key: staleKey}}
	s.scene = scene{drill: s.r.Drill, symptom: "KVD-RAFT-013", keep: o.Keep, sink: sink, ending: &s.r.Ending, told: func(p Phase) {
		if o.Told != nil {
			o.Told(s.r, p)
		}
	}}
	s.parting = s.direct
	err := s.perform(ctx, []act{
		{PhaseReproduce, s.reproduce}, {PhaseDiagnose, s.diagnose}, {PhaseRemedy, s.mend}, {PhaseProve, s.prove},
	})
	return s.r, err
}

// reproduce starts the cluster, reads from it whole, cuts the follower off, and
// writes on.
func (s *stale) reproduce(ctx context.Context) error {
	began := time.Now()
	var err error
	if s.stage, err = newStage(ctx, setting{members: s.o.Members, keep: s.o.Keep, dir: s.o.Dir, command: s.o.Command, cut: true}, s.sink); err != nil {
		return err
	}
	s.r.StartSeconds = time.Since(began).Seconds()
	s.r.Endpoints, s.r.Dir = s.cluster.Endpoints(), s.root
	if err := s.choose(ctx); err != nil {
		return err
	}
	if err := s.write(ctx, 1); err != nil {
		return err
	}
	if s.r.Before, err = s.read(ctx, "reading from the whole cluster"); err != nil {
		return err
	}
	s.r.CutRevision = s.r.HeadRevision
	s.sink.Event(progress.Event{Op: "drill", Phase: "cutting off " + s.r.Follower})
	s.cutAt = time.Now()
	if !s.o.Sabotage.NoCut {
		if err := s.cluster.Cut(s.index); err != nil {
			return err
		}
	}
	began = time.Now()
	if err := s.write(ctx, s.o.Writes); err != nil {
		return err
	}
	s.r.Writes, s.r.WriteSeconds = int64(s.o.Writes), time.Since(began).Seconds()
	return wholly(NotReproduced, s.freshMissing(s.r.Before))
}

// choose takes the leader and a follower.
func (s *stale) choose(ctx context.Context) error {
	members, view, err := s.members(ctx)
	if err != nil {
		return err
	}
	for i, m := range members {
		if m.ID() == view.Leader {
			s.leader, s.r.Leader = m, s.cluster.Name(i)
		} else if s.follower == nil {
			s.follower, s.r.Follower, s.index = m, s.cluster.Name(i), i
		}
	}
	if s.leader == nil {
		return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoLeader, Op: "drill", Msg: "the cluster has no leader"}
	}
	return nil
}

// write writes the key n times through the leader.
func (s *stale) write(ctx context.Context, n int) error {
	for range n {
		put, cancel := context.WithTimeout(ctx, cluster.DefaultCommandTimeout)
		resp, err := s.leader.Etcd().Put(put, staleKey, staleValue(s.version+1))
		cancel()
		if err != nil {
			return s.leader.Explain(ctx, "put", err)
		}
		s.version++
		s.r.HeadRevision = resp.Header.Revision
		if !s.cutAt.IsZero() && s.firstMissed.IsZero() {
			s.firstMissed = time.Now()
		}
	}
	return nil
}

func staleValue(version int) string { return fmt.Sprintf("version %d", version) }

// diagnose reads from the follower that is cut off, and from the leader.
func (s *stale) diagnose(ctx context.Context) error {
	if err := s.leaderless(ctx); err != nil {
		return err
	}
	var err error
	if s.r.During, err = s.read(ctx, "reading while "+s.r.Follower+" is cut off"); err != nil {
		return err
	}
	s.r.AgeSeconds = time.Since(s.firstMissed).Seconds()
	s.sink.Event(progress.Event{Op: "drill", Phase: "reading what cannot be answered"})
	s.refused(ctx, ReadLinearizable, "the default", ctx)
	s.refused(ctx, ReadSerializable, "WithRequireLeader", clientv3.WithRequireLeader(ctx))
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.duringMissing()
}

// leaderless waits until the follower knows that it has no leader.
func (s *stale) leaderless(ctx context.Context) error {
	s.sink.Event(progress.Event{Op: "drill", Phase: "waiting until " + s.r.Follower + " misses its leader"})
	ctx, cancel := context.WithTimeout(ctx, sizesSettle)
	defer cancel()
	for {
		st, err := s.follower.Status(ctx)
		if err == nil && st.Leader == 0 {
			s.r.Leaderless = time.Since(s.cutAt).Seconds()
			return nil
		}
		if wait.For(ctx, crashPoll) != nil {
			return &verdict{outcome: NotReproduced, missing: []string{fmt.Sprintf("%s, cut off, still knows a leader %s later", s.r.Follower, sizesSettle)}}
		}
	}
}

// mend connects the follower again and waits until it serves linearizable reads.
func (s *stale) mend(ctx context.Context) error {
	s.sink.Event(progress.Event{Op: "drill", Phase: "mending"})
	began := time.Now()
	if !s.o.Sabotage.NoMend {
		s.cluster.Mend()
	}
	deadline, cancel := context.WithTimeout(ctx, sizesSettle)
	defer cancel()
	for {
		resp, err := s.get(deadline, s.follower, s.o.Timeout)
		if err == nil && resp.Header.Revision >= s.r.HeadRevision {
			s.r.CaughtUpSeconds = time.Since(began).Seconds()
			return nil
		}
		if wait.For(deadline, crashPoll) != nil {
			return &verdict{outcome: NotRemedied, missing: []string{fmt.Sprintf("%s serves no linearizable read %s after the mend", s.r.Follower, sizesSettle)}}
		}
	}
}

// prove writes once more and reads again.
func (s *stale) prove(ctx context.Context) error {
	members, view, err := s.members(ctx)
	if err != nil {
		return err
	}
	for _, m := range members { // the one that was cut off may have caused an election
		if m.ID() == view.Leader {
			s.leader = m
		}
	}
	if err := s.write(ctx, 1); err != nil {
		return err
	}
	if s.r.After, err = s.read(ctx, "reading again"); err != nil {
		return err
	}
	return wholly(NotProved, s.freshMissing(s.r.After))
}

// direct lets the members reach each other without this process, which is about
// to leave them, however far the drill has come.
func (s *stale) direct(ctx context.Context) error {
	s.cluster.Mend()
	view, err := s.level(ctx)
	if err != nil {
		return err
	}
	leader, err := s.client.Member(view.Leader)
	if err != nil {
		return err
	}
	for i := range s.cluster.Len() {
		m, err := view.FindMember(s.cluster.Name(i))
		if err != nil {
			return err
		}
		if _, err := leader.Etcd().MemberUpdate(ctx, m.ID, []string{s.cluster.PeerListenURL(i)}); err != nil {
			return leader.Explain(ctx, "member update", err)
		}
	}
	return nil
}
