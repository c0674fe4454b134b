package drill

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/local"
)

// RestoreOptions says how to play a restore drill.
type RestoreOptions struct {
	Members int // 1 to 5
	Writes  int // acknowledged after the snapshot, and lost with the cluster
	Keep    bool
	Dir     string // as in Options
	Command local.Command
	Told    func(RestoreReport, Phase) // as in Options
	// Sabotage is for tests, which see with it that a drill that lacks something is not
	// called proved.
	Sabotage RestoreSabotage
}

// RestoreSabotage leaves something out or does harm.
type RestoreSabotage struct {
	NoBump  bool                                                            // the second restore leaves the revision as it is, too
	File    func(path string) error                                         // to the snapshot, before it is all that is left
	Cluster func(ctx context.Context, endpoints []string, key string) error // after the second restore, to one of the keys
}

// Limits of RestoreOptions.Writes: revisions that the watcher is ahead, of which
// the writes after the plain restore use one per member.
const (
	MinRestoreWrites = 10
	MaxRestoreWrites = 20_000
)

// DefaultRestoreOptions returns three members, and 200 writes after the snapshot.
func DefaultRestoreOptions() RestoreOptions { return RestoreOptions{Members: 3, Writes: 200} }

func (o RestoreOptions) check() error {
	switch {
	case o.Members < 1 || o.Members > MaxMembers:
		return usage("--members %d: want 1 to %d", o.Members, MaxMembers)
	case o.Writes < MinRestoreWrites || o.Writes > MaxRestoreWrites:
		return usage("--writes %d: want %d to %d", o.Writes, MinRestoreWrites, MaxRestoreWrites)
	}
	return checkDir(o.Dir)
}

// restoring is the scene in which a cluster loses everything and comes back from
// its snapshot.
type restoring struct {
	scene
	o       RestoreOptions
	load    *load
	acks    acknowledged
	saved   picture // what the cluster held when the snapshot was taken
	watcher informer
	file    string
	r       RestoreReport
}

// restoreScale is the quota for which the load's objects are made: some 440
// objects. updatesBefore are written to them before the snapshot, so that there are
// versions, history, and Events with their lease.
const (
	restoreScale  = baseQuota
	updatesBefore = 300
)

// Restore plays the scene: a snapshot, more writes, the loss of every file, a
// restore that leaves the revision as it was, and one that lifts it. The error is
// nil only if a watcher from before hears nothing after the first and is told so
// after the second, and every member then holds what the snapshot was taken of. For
// the rest see Nospace.
func Restore(ctx context.Context, o RestoreOptions, sink progress.Sink) (RestoreReport, error) {
	if err := o.check(); err != nil {
		return RestoreReport{}, err
	}
	s := &restoring{o: o, r: RestoreReport{Drill: "restore", Members: o.Members, StartedAt: time.Now().UTC()}}
	s.scene = scene{drill: s.r.Drill, keep: o.Keep, sink: sink, ending: &s.r.Ending, told: func(p Phase) {
		if o.Told != nil {
			o.Told(s.r, p)
		}
	}}
	err := s.perform(ctx, []act{
		{PhaseReproduce, s.reproduce}, {PhaseDiagnose, s.diagnose}, {PhaseRemedy, s.remedy}, {PhaseProve, s.prove},
	})
	return s.r, err
}

// reproduce fills a cluster, takes a snapshot, writes on, and loses everything.
func (s *restoring) reproduce(ctx context.Context) error {
	began := time.Now()
	var err error
	if s.stage, err = newStage(ctx, setting{members: s.o.Members, keep: s.o.Keep, dir: s.o.Dir, command: s.o.Command}, s.sink); err != nil {
		return err
	}
	s.r.StartSeconds = time.Since(began).Seconds()
	s.r.Endpoints, s.r.Dir = s.cluster.Endpoints(), s.root
	members, view, err := s.members(ctx)
	if err != nil {
		return err
	}
	if err := s.fill(ctx, members); err != nil {
		return err
	}
	if err := s.save(ctx, view); err != nil {
		return err
	}
	if err := s.writeOn(ctx, members[watchThrough]); err != nil {
		return err
	}
	if s.o.Sabotage.File != nil {
		if err := s.o.Sabotage.File(s.file); err != nil {
			return err
		}
	}
	return s.lose()
}

// fill writes what Kubernetes writes, and takes a picture of it.
func (s *restoring) fill(ctx context.Context, members []*cluster.MemberClient) error {
	s.sink.Event(progress.Event{Op: "drill", Phase: "creating objects"})
	s.load = newLoad(restoreScale, members)
	s.load.acked = s.acks.note
	if err := s.load.create(ctx); err != nil {
		return err
	}
	enough := s.load.writes.Load() + updatesBefore
	if err := s.load.run(ctx, func() bool { return s.load.writes.Load() >= enough }); err != nil {
		return err
	}
	s.r.Written = s.load.written()
	var err error
	if s.saved, err = takePicture(ctx, members[0], 0); err != nil {
		return members[0].Explain(ctx, "get", err)
	}
	s.r.AcknowledgedBefore = s.acks.count()
	return wholly(NotReproduced, s.acks.notIn(s.saved))
}

// save takes the snapshot as `kvd snapshot save` does.
func (s *restoring) save(ctx context.Context, view cluster.View) error {
	s.file = filepath.Join(s.root, "snapshot.db")
	o := snapshot.DefaultSaveOptions()
	o.Dest, o.Manifest = s.file, snapshot.ManifestPath(s.file)
	saved, err := snapshot.Save(ctx, s.client, view, o, s.sink)
	if err != nil {
		return err
	}
	m := saved.Manifest
	s.r.Snapshot = RestoreSnapshot{File: s.file, Member: m.Member.Name, Role: m.Member.Role, SizeBytes: m.SizeBytes, SHA256: m.SHA256,
		Revision: m.Revision, Keys: m.Keys, Leases: int64(len(s.saved.leases)), KVHash: m.KV.Hash, TookSeconds: saved.TookSeconds}
	return wholly(NotReproduced, s.snapshotMissing())
}

// writeOn writes what is going to be lost, with a watcher that hears all of it.
func (s *restoring) writeOn(ctx context.Context, m *cluster.MemberClient) error {
	s.sink.Event(progress.Event{Op: "drill", Phase: "writing on, watched"})
	s.watcher.adopt(s.saved)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	heard := m.Etcd().Watch(watching, registryPrefix, fromHere(s.watcher.revision+1)...)
	enough := s.load.writes.Load() + int64(s.o.Writes)
	if err := s.load.run(ctx, func() bool { return s.load.writes.Load() >= enough }); err != nil {
		return err
	}
	s.r.AcknowledgedAfter = s.acks.count() - s.r.AcknowledgedBefore
	s.r.LastRevision = s.acks.last()
	if err := s.watcher.listen(ctx, heard, s.r.LastRevision); err != nil {
		return m.Explain(ctx, "watch", err)
	}
	s.r.Watcher = RestoreWatcher{Prefix: registryPrefix, ListRevision: s.saved.revision, Events: s.watcher.events, Revision: s.watcher.revision}
	return nil
}

// lose kills every member at the same moment and removes its data, with the log.
func (s *restoring) lose() error {
	var wg sync.WaitGroup
	for i := range s.cluster.Len() {
		wg.Go(func() { s.cluster.Kill(i) })
	}
	wg.Wait()
	for i := range s.cluster.Len() {
		if err := os.RemoveAll(s.cluster.DataDir(i)); err != nil {
			return fmt.Errorf("drill: remove the data of %s: %w", s.cluster.Name(i), err)
		}
	}
	return nil
}

// diagnose looks at what is left: the file, and what clients know.
func (s *restoring) diagnose(ctx context.Context) error {
	v, err := snapshot.Verify(ctx, s.file, snapshot.Options{}, s.sink)
	if err != nil {
		return err
	}
	d := &s.r.Diagnosis
	d.Verdict, d.Summary = v.Verdict, v.Summary
	if v.Content == nil {
		return wholly(NotReproduced, []string{"the snapshot does not restore: " + v.Summary})
	}
	d.Revision, d.Ahead = v.Content.Revision, s.watcher.revision-v.Content.Revision
	d.Lost, d.Examples = s.acks.after(v.Content.Revision)
	d.Resources = s.acks.resourcesAfter(v.Content.Revision)
	return wholly(NotReproduced, s.diagnosisMissing(v))
}
