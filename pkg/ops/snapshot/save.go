package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/spool"
)

const opSave = "snapshot save"

// SaveOptions say what is saved how, and where to.
type SaveOptions struct {
	Dest     string    // a file, or Stdout
	Out      io.Writer // what Stdout is
	Manifest string    // where the manifest goes; empty: nowhere
	Force    bool      // overwrite files, and read a member that is near its quota

	Member        string // name or ID; empty: the best one
	MaxLag        uint64 // applied entries that a member may be behind the furthest
	WithoutQuorum bool   // take what the member has, whatever the cluster's revision is

	Compression string // spool.None or spool.Zstd
	Verify      string // VerifiedFull or VerifiedHash
	SpoolDir    string // see spoolDir
	KvdVersion  string // for the manifest
}

// DefaultSaveOptions are the defaults of `kvd snapshot save`.
func DefaultSaveOptions() SaveOptions {
	return SaveOptions{MaxLag: 1000, Compression: spool.None, Verify: VerifiedFull}
}

// Saved is a snapshot that was saved.
type Saved struct {
	File         string       `json:"file"`
	ManifestFile string       `json:"manifest_file,omitempty"`
	Why          string       `json:"member_chosen_because"`
	PassedOver   []PassedOver `json:"passed_over"`
	Manifest     *Manifest    `json:"manifest"`
	// Findings are what somebody who restores it should know; empty where only
	// the hash was checked.
	Findings []Finding `json:"findings"`

	// The member's file before and after it was read, with its free pages.
	DBSizeBefore int64 `json:"db_size_before_bytes"`
	DBSizeAfter  int64 `json:"db_size_after_bytes,omitempty"` // 0 where it did not say

	ReceiveSeconds float64 `json:"receive_seconds"`
	TookSeconds    float64 `json:"took_seconds"`
}

// save is one run of Save.
type save struct {
	o      SaveOptions
	client *cluster.Client
	view   cluster.View
	sink   progress.Sink
	began  time.Time

	start  int64 // the cluster's revision
	member candidate
	out    *Saved
}

// Save takes a snapshot of one member of the view. The file gets its name only
// when it is whole, checked and on disk; whatever goes wrong before, nothing is
// left. CheckDest tells before what is wrong with the destination.
//
// Errors: fault.Refused where a file would be overwritten (cause "file_exists") or
// no member may be read ("near_quota", "no_member"); fault.Unavailable where none
// answers, the stream is cut off, or a disk is full ("disk_full"); fault.Damage
// where the member's own data is damaged.
func Save(ctx context.Context, client *cluster.Client, view cluster.View, o SaveOptions, sink progress.Sink) (*Saved, error) {
	s := &save{o: o, client: client, view: view, sink: sink, began: time.Now(), out: &Saved{File: o.Dest, PassedOver: []PassedOver{}, Findings: []Finding{}}}
	if err := o.checkNames(); err != nil {
		return nil, err
	}
	stream, err := s.openStream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	s.out.DBSizeBefore = s.member.Status.DBSize
	if err := s.store(ctx, stream); err != nil {
		return nil, err
	}
	s.out.TookSeconds = time.Since(s.began).Seconds()
	return s.out, nil
}

// openStream chooses the member and has it begin. Until the first piece is there
// another member can be asked instead.
func (s *save) openStream(ctx context.Context) (*cluster.SnapshotStream, error) {
	if !s.o.WithoutQuorum {
		if err := s.readRevision(ctx); err != nil {
			return nil, err
		}
	}
	ranked, passed, err := choose(s.view, s.load(ctx), s.o)
	s.pass(passed...)
	if err != nil {
		return nil, err
	}
	for _, c := range ranked {
		stream, err := s.begin(ctx, c)
		if err == nil {
			s.member, s.out.Why = c, c.why
			return stream, nil
		}
		if ctx.Err() != nil || len(ranked) == 1 || fault.KindOf(err) == fault.Denied {
			return nil, err
		}
		s.pass(PassedOver{Member: c.Label(), Reason: fault.Why(err)})
	}
	return nil, noneLeft(s.out.PassedOver)
}

// pass tells that members are passed over.
func (s *save) pass(members ...PassedOver) {
	for _, p := range members {
		s.sink.Event(progress.Event{Warning: true, Note: "passing over " + p.Member + ": " + p.Reason})
	}
	s.out.PassedOver = append(s.out.PassedOver, members...)
}

// readRevision asks through the quorum what the snapshot must have.
func (s *save) readRevision(ctx context.Context) error {
	quorum, err := s.client.Quorum(ctx)
	if err != nil {
		return err
	}
	resp, err := quorum.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return s.withoutRevision(err)
	}
	s.start = resp.Header.Revision
	return nil
}

// withoutRevision says why the cluster's revision could not be read, and who is
// missing for it.
func (s *save) withoutRevision(err error) error {
	if fault.KindOf(err) != fault.Unavailable {
		return err
	}
	why := fault.Why(err)
	switch fault.CauseOf(err) {
	case cluster.CauseDeadline, cluster.CauseRequestTimedOut:
		why = "no majority answered in time" // nothing was to take effect
	}
	e := &fault.Error{Kind: fault.Unavailable, Cause: fault.CauseOf(err), Op: opSave, Msg: "the cluster's revision could not be read through the quorum: " + why,
		Hint: "without a quorum nobody knows what the newest revision is; --without-quorum saves what the furthest member that answers has"}
	voters, silent := s.view.Voters(), []string{}
	for _, m := range voters {
		if m.Status == nil {
			silent = append(silent, m.Label())
		}
	}
	if up := len(voters) - len(silent); s.view.VotersKnown() && !s.view.Commits && up < s.view.Quorum() {
		e.Cause = cluster.CauseNoQuorum
		e.Msg = fmt.Sprintf("no quorum: %d of %d voters answer, and it takes %d; silent: %s", up, len(voters), s.view.Quorum(), strings.Join(silent, ", "))
	}
	return e
}

// load measures how fast each member answers: the median of three, over a
// connection that stands.
func (s *save) load(ctx context.Context) map[uint64]time.Duration {
	out := map[uint64]time.Duration{}
	for _, m := range s.view.Answered() {
		mc, err := s.client.Member(m.ID)
		if err != nil || s.o.Member != "" {
			continue
		}
		took := []time.Duration{}
		for range 3 {
			began := time.Now()
			if _, err := mc.Status(ctx); err != nil {
				took = []time.Duration{0, time.Hour} // any other one is better
				break
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		out[m.ID] = took[1]
	}
	return out
}

// catchUp is how long a member is waited for that has not applied everything yet.
const catchUp = 10 * time.Second

// begin waits until the member has the revision, then has it send. A server
// commits what it has applied before it reads, so what it sends is not older.
func (s *save) begin(ctx context.Context, c candidate) (*cluster.SnapshotStream, error) {
	mc, err := s.client.Member(c.ID)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(catchUp)
	for {
		st, err := mc.Status(ctx)
		if err != nil {
			return nil, err
		}
		if st.Revision >= s.start {
			break
		}
		s.sink.Event(progress.Event{Op: opSave, Subject: c.Label(), Phase: "waiting for its revision", Done: st.Revision, Total: s.start, Unit: "revisions"})
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			return nil, &fault.Error{Kind: fault.Refused, Cause: "behind", Op: opSave, Subject: c.Label(),
				Msg:  fmt.Sprintf("it is at revision %d, the cluster was at %d %s ago", st.Revision, s.start, catchUp),
				Hint: "leave out --member, or wait until it has caught up (`kvd status`)"}
		}
	}
	return mc.Snapshot(ctx)
}

// store takes the stream to its destination.
func (s *save) store(ctx context.Context, stream *cluster.SnapshotStream) error {
	s.sweep()
	p, err := s.o.createParts()
	if err == nil {
		err = s.storeIn(ctx, stream, p)
	}
	return errors.Join(err, p.drop())
}

// storeIn fills the snapshot (nil: the pipe), and gives it and its manifest their
// names when both are on disk.
func (s *save) storeIn(ctx context.Context, stream *cluster.SnapshotStream, p parts) error {
	m, err := s.fill(ctx, stream, p.snapshot)
	if err != nil {
		return s.o.writeError(err)
	}
	s.complete(m, stream)
	s.measureGrowth(ctx)
	s.out.Manifest, s.out.ManifestFile = m, s.o.Manifest
	if p.manifest != nil {
		if err := m.write(p.manifest); err != nil {
			return err
		}
	}
	if p.snapshot != nil {
		if p.manifest != nil && s.o.Force { // what it says is not so from now on
			if err := os.Remove(s.o.Manifest); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fileError(opSave, s.o.Manifest, err)
			}
		}
		if err := p.snapshot.commit(s.o.Force); err != nil {
			return err
		}
		if err := s.retireManifest(); err != nil {
			return err
		}
	}
	if p.manifest == nil {
		return nil
	}
	return p.manifest.commit(true) // checkNames has seen what is there
}

// retireManifest removes the manifest that lies beside the snapshot where it is of
// a file that had its name before, and no new one comes in its place.
func (s *save) retireManifest() error {
	beside := ManifestPath(s.o.Dest)
	if s.o.Manifest != "" && sameName(s.o.Manifest, beside) {
		return nil
	}
	old, err := ReadManifest(beside)
	if err != nil || old.File != filepath.Base(s.o.Dest) {
		return nil // none, or none of ours
	}
	if err := os.Remove(beside); err != nil {
		return fileError(opSave, beside, err)
	}
	s.sink.Event(progress.Event{Warning: true, Note: beside + " is removed: it was the manifest of a file that had this name before"})
	return nil
}

// measureGrowth looks how large the member's file is now.
func (s *save) measureGrowth(ctx context.Context) {
	mc, err := s.client.Member(s.member.ID)
	if err != nil {
		return
	}
	if st, err := mc.Status(ctx); err == nil {
		s.out.DBSizeAfter = st.DBSize
	}
}

// complete fills in where the snapshot is from.
func (s *save) complete(m *Manifest, stream *cluster.SnapshotStream) {
	if s.o.Dest != Stdout {
		m.File = filepath.Base(s.o.Dest)
	}
	m.StartRevision, m.Compression, m.Verified, m.KvdVersion = s.start, s.o.Compression, s.o.Verify, s.o.KvdVersion
	m.ClusterID = ID(s.view.ID)
	m.Member = ManifestMember{ID: ID(s.member.ID), Name: s.member.Name, Endpoint: s.member.Endpoint, Role: s.view.Role(s.member.Member)}
	m.ServerVersion, m.StorageVersion = s.member.Status.Version, stream.StorageVersion
	m.StartedAt, m.EndedAt = s.began.UTC(), time.Now().UTC()
}
