package drill

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
)

// Whom a crash drill kills.
const (
	KillAll      = "all" // at the same moment, so that nothing but the files is left
	KillLeader   = "leader"
	KillFollower = "follower"
)

// CrashOptions says how to play a crash drill.
type CrashOptions struct {
	Members int    // 1 to 5
	Kill    string // KillAll, KillLeader or KillFollower
	Writes  int64  // acknowledged before the kill, at least
	Keep    bool   // leave the cluster running, if it came to a verdict
	Dir     string // as in Options
	Command local.Command
	Told    func(CrashReport, Phase) // as in Options
	// Sabotage is for tests, which see with it that a drill whose writes are lost
	// or done twice is not called proved.
	Sabotage CrashSabotage
}

// CrashSabotage does harm at two moments; either may be nil.
type CrashSabotage struct {
	Files   func(dataDirs []string, acknowledged map[string]int64) error                // before the start
	Cluster func(ctx context.Context, endpoints []string, last string, rev int64) error // after it, with the last acknowledged key
}

// Limits of CrashOptions.Writes. Above the upper one the log outgrows a segment.
const (
	MinCrashWrites = 100
	MaxCrashWrites = 50_000
)

// DefaultCrashOptions returns three members, all of which are killed after 2,000
// writes.
func DefaultCrashOptions() CrashOptions {
	return CrashOptions{Members: 3, Kill: KillAll, Writes: 2000}
}

func (o CrashOptions) check() error {
	switch {
	case o.Members < 1 || o.Members > MaxMembers:
		return usage("--members %d: want 1 to %d", o.Members, MaxMembers)
	case o.Writes < MinCrashWrites || o.Writes > MaxCrashWrites:
		return usage("--writes %d: want %d to %d", o.Writes, MinCrashWrites, MaxCrashWrites)
	case !slices.Contains([]string{KillAll, KillLeader, KillFollower}, o.Kill):
		return usage("--kill %q: want %s, %s or %s", o.Kill, KillAll, KillLeader, KillFollower)
	case o.Kill != KillAll && o.Members < 3:
		return usage("--kill %s needs a majority that lives on: --members 3 or more", o.Kill)
	}
	return checkDir(o.Dir)
}

// crash is the scene in which members are killed while they are written to.
type crash struct {
	scene
	o       CrashOptions
	load    *crashLoad
	stop    context.CancelFunc // ends the load
	victims []int
	tails   map[string][]logged // of each killed member: the writes that only its log had
	r       CrashReport
}

// noSnapshots keeps the whole log, so that every write of the load can be found
// in it: by default etcd drops what is older than 10,000 entries.
const noSnapshots = "--snapshot-count=10000000"

// How etcd 3.7.3 commits its database (server/storage/backend).
const (
	batchInterval = 100 * time.Millisecond
	batchLimit    = 10_000
)

// Crash plays the scene: a load, SIGKILL, a look at the files, a start, and a
// search for every write. The error is nil only if each acknowledged write is
// there exactly once on every member and no unanswered one is there by half; it
// is of kind Wanting where that is not so. For the rest see Nospace.
func Crash(ctx context.Context, o CrashOptions, sink progress.Sink) (CrashReport, error) {
	if err := o.check(); err != nil {
		return CrashReport{}, err
	}
	s := &crash{o: o, tails: map[string][]logged{}, stop: func() {}, r: CrashReport{
		Drill: "crash", Members: o.Members, Kill: o.Kill, StartedAt: time.Now().UTC(),
		Load: CrashLoad{KeyPrefix: crashPrefix, ValueBytes: crashValueBytes, BatchIntervalSeconds: batchInterval.Seconds(), BatchLimit: batchLimit},
	}}
	s.scene = scene{drill: s.r.Drill, keep: o.Keep, sink: sink, ending: &s.r.Ending, told: func(p Phase) {
		if o.Told != nil {
			o.Told(s.r, p)
		}
	}}
	err := s.perform(ctx, []act{
		{PhaseReproduce, s.reproduce}, {PhaseDiagnose, s.diagnose}, {PhaseRemedy, s.restart}, {PhaseProve, s.prove},
	})
	s.halt()
	return s.r, err
}

// halt ends the load and waits for its writers.
func (s *crash) halt() {
	s.stop()
	if s.load != nil {
		s.load.wg.Wait()
	}
}

// reproduce starts the cluster, writes, and kills.
func (s *crash) reproduce(ctx context.Context) error {
	began := time.Now()
	var err error
	if s.stage, err = newStage(ctx, setting{members: s.o.Members, keep: s.o.Keep, dir: s.o.Dir, command: s.o.Command, args: []string{noSnapshots}}, s.sink); err != nil {
		return err
	}
	s.r.StartSeconds = time.Since(began).Seconds()
	s.r.Endpoints, s.r.Dir = s.cluster.Endpoints(), s.root
	members, view, err := s.members(ctx)
	if err != nil {
		return err
	}
	s.choose(view)

	s.sink.Event(progress.Event{Op: "drill", Phase: "writing"})
	loading, stop := context.WithCancel(ctx)
	s.stop = stop
	s.load = newCrashLoad(members)
	began = time.Now()
	s.r.Load.Writers = s.load.start(loading)
	if err := s.load.until(ctx, s.o.Writes, func() error { return s.cluster.Outlived("drill crash") }); err != nil {
		return err
	}
	if err := s.note(ctx); err != nil {
		return err
	}
	s.sink.Event(progress.Event{Op: "drill", Phase: "killing " + s.names()})
	s.kill()
	s.r.Load.LoadSeconds = time.Since(began).Seconds()
	if s.o.Kill == KillAll {
		s.halt() // nobody answers any more
	}
	return nil
}

// choose picks the members to kill.
func (s *crash) choose(view cluster.View) {
	for i := range s.cluster.Len() {
		m, err := view.FindMember(s.cluster.Name(i))
		if err != nil {
			continue // members has found all of them
		}
		role := view.Role(m)
		if s.o.Kill == KillAll || s.o.Kill == role && len(s.victims) == 0 {
			s.victims = append(s.victims, i)
			s.r.Killed = append(s.r.Killed, CrashVictim{Member: m.Name, Role: role})
		}
	}
}

func (s *crash) names() string {
	var out []string
	for _, v := range s.r.Killed {
		out = append(out, v.Member)
	}
	return strings.Join(out, ", ")
}

// kill ends the chosen members at the same moment.
func (s *crash) kill() {
	var wg sync.WaitGroup
	for _, i := range s.victims {
		wg.Go(func() { s.cluster.Kill(i) })
	}
	wg.Wait()
}

// diagnose reads the files of the killed members.
func (s *crash) diagnose(ctx context.Context) error {
	acked := s.load.acknowledged()
	var missing []string
	for _, i := range s.victims {
		name := s.cluster.Name(i)
		f, tail, err := readFiles(ctx, name, s.cluster.DataDir(i), s.cluster.DBPath(i), acked)
		if err != nil {
			return err
		}
		s.r.Files, s.tails[name] = append(s.r.Files, f), tail
		for _, m := range f.Mismatches {
			missing = append(missing, name+": "+m.Says)
		}
	}
	return wholly(NotProved, missing)
}

// restart starts the killed members again and ends the load.
func (s *crash) restart(ctx context.Context) error {
	if s.o.Sabotage.Files != nil {
		var dirs []string
		for _, i := range s.victims {
			dirs = append(dirs, s.cluster.DataDir(i))
		}
		if err := s.o.Sabotage.Files(dirs, s.load.acknowledged()); err != nil {
			return err
		}
	}
	s.sink.Event(progress.Event{Op: "drill", Phase: "starting " + s.names() + " again"})
	began := time.Now()
	for _, i := range s.victims {
		if err := s.cluster.Launch(i); err != nil {
			return err
		}
	}
	if err := s.cluster.WaitReady(ctx); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	s.halt()
	if err := s.connect(ctx); err != nil {
		return err
	}
	s.r.Load.Acknowledged, s.r.Load.Unanswered = int64(len(s.load.revisions)), int64(len(s.load.unanswered))
	last, rev := s.load.last()
	s.r.Load.LastRevision = rev
	if s.o.Sabotage.Cluster != nil {
		if err := s.o.Sabotage.Cluster(ctx, s.cluster.Endpoints(), last, rev); err != nil {
			return err
		}
	}
	return s.noteStarts(ctx, took)
}
