package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
)

// remedy restores twice: the revision as it is in the file, and lifted.
func (s *restoring) remedy(ctx context.Context) error {
	var err error
	if s.r.Plain, err = s.rise(ctx, 0); err != nil {
		return err
	}
	if missing := s.silenceMissing(); len(missing) > 0 {
		return wholly(NotReproduced, missing)
	}
	if err := s.lose(); err != nil {
		return err
	}
	bump := int64(snapshot.AutoBump)
	if s.o.Sabotage.NoBump {
		bump = 0
	}
	if s.r.Bumped, err = s.rise(ctx, bump); err != nil {
		return err
	}
	if missing := s.toldMissing(); len(missing) > 0 {
		return wholly(NotRemedied, missing)
	}
	return s.relist(ctx)
}

// rise restores every member, starts them, and has the watcher from before go on
// where it was.
func (s *restoring) rise(ctx context.Context, bump int64) (RestoreRun, error) {
	run := RestoreRun{BumpRevision: bump}
	began := time.Now()
	if err := s.restore(ctx, bump); err != nil {
		return run, err
	}
	run.RestoreSeconds = time.Since(began).Seconds()
	began = time.Now()
	if err := s.launch(ctx); err != nil {
		return run, err
	}
	run.StartSeconds = time.Since(began).Seconds()
	if s.o.Sabotage.Cluster != nil && bump != 0 {
		if err := s.o.Sabotage.Cluster(ctx, s.cluster.Endpoints(), s.load.leases()[0].key); err != nil {
			return run, err
		}
	}
	members, _, err := s.members(ctx)
	if err != nil {
		return run, err
	}
	m := members[watchThrough]
	if err := s.look(ctx, m, &run); err != nil {
		return run, err
	}
	s.sink.Event(progress.Event{Op: "drill", Phase: fmt.Sprintf("watching again from revision %d", s.watcher.revision+1)})
	// Only where all that the watcher knows is below is something to be heard.
	again, err := s.rewatch(ctx, members, s.watcher.revision+1, run.Revision > s.watcher.revision)
	run.Watch, run.Writes = again.watch, again.writes
	return run, err
}

// look notes what there is after the start, and how a read fares at the revision
// that the watcher knows.
func (s *restoring) look(ctx context.Context, m *cluster.MemberClient, run *RestoreRun) error {
	first, err := m.Etcd().Get(ctx, registryPrefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return m.Explain(ctx, "get", err)
	}
	run.Revision, run.Keys = first.Header.Revision, first.Count
	hash, err := m.HashKV(ctx, run.Revision)
	if err != nil {
		return err
	}
	run.KVHash = hash.Hash
	run.Get = RestoreGet{Revision: s.watcher.revision}
	if _, err := m.Etcd().Get(ctx, s.load.leases()[0].key, clientv3.WithRev(s.watcher.revision)); err != nil {
		run.Get.Error = err.Error()
	}
	return nil
}

// restore makes every member's data of the file, as `kvd snapshot restore --all`
// does.
func (s *restoring) restore(ctx context.Context, bump int64) (err error) {
	o := snapshot.RestoreOptions{File: s.file, Recipe: snapshot.Recipe{BumpRevision: bump}}
	for i := range s.cluster.Len() {
		o.Recipe.Members = append(o.Recipe.Members, snapshot.RecipeMember{Name: s.cluster.Name(i), PeerURLs: []string{s.cluster.PeerURL(i)}})
		o.Here = append(o.Here, snapshot.RestoreTarget{Name: s.cluster.Name(i), DataDir: s.cluster.DataDir(i)})
	}
	p, err := snapshot.PlanRestore(ctx, o, s.sink)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	_, err = p.Plan.Run(ctx, nil, s.sink)
	return err
}

// launch starts all members and connects to them.
func (s *restoring) launch(ctx context.Context) error {
	s.sink.Event(progress.Event{Op: "drill", Phase: "starting the restored members"})
	for i := range s.cluster.Len() {
		if err := s.cluster.Launch(i); err != nil {
			return err
		}
	}
	if err := s.cluster.WaitReady(ctx); err != nil {
		return err
	}
	return s.connect(ctx)
}

// relist lets the watcher do what it does when it is told that it missed something:
// list, and watch from there.
func (s *restoring) relist(ctx context.Context) error {
	members, _, err := s.members(ctx)
	if err != nil {
		return err
	}
	m := members[watchThrough]
	now, err := takePicture(ctx, m, 0)
	if err != nil {
		return m.Explain(ctx, "get", err)
	}
	s.r.Relist = RestoreRelist{Revision: now.revision, Keys: int64(len(now.keys))}
	again, err := s.rewatch(ctx, members, now.revision+1, true)
	s.r.Relist.Watch, s.r.Relist.Writes = again.watch, again.writes
	if err != nil {
		return err
	}
	return wholly(NotRemedied, s.relistMissing())
}

// prove reads everything that the snapshot was taken of back from every member.
func (s *restoring) prove(ctx context.Context) error {
	view, err := s.level(ctx)
	if err != nil {
		return err
	}
	members, _, err := s.members(ctx)
	if err != nil {
		return err
	}
	s.sink.Event(progress.Event{Op: "drill", Phase: "comparing key for key"})
	var missing []string
	for i, m := range members {
		now, err := takePicture(ctx, m, s.r.Bumped.Revision)
		if err != nil {
			return m.Explain(ctx, "get", err)
		}
		if i == watchThrough {
			s.r.Proof.Leases = s.saved.leasesIn(now)
		}
		found := s.saved.compare(s.cluster.Name(i), now)
		missing = append(missing, found.missing(s.saved)...)
		hash, err := m.HashKV(ctx, view.Members[0].Status.Revision)
		if err != nil {
			return err
		}
		found.Hash, found.HashRevision, found.CompactRevision = hash.Hash, hash.HashRevision, hash.CompactRevision
		s.r.Proof.Members = append(s.r.Proof.Members, found)
	}
	s.r.Proof.Writes = s.renewals(ctx, members)
	s.r.Proof.HighestSeen = max(s.watcher.revision, s.r.LastRevision, lastRevision(s.r.Plain.Writes))
	return wholly(NotProved, missing, s.proofMissing())
}
