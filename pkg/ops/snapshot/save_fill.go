package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/spool"
)

// fill takes the stream to the target (nil: the pipe), checked and on disk, and
// says what it is.
//
// To be checked it must lie in a file as it is, from which it goes on only when it
// was found whole. A file that is not compressed is its own; else there is one
// without a name. The member is read at full speed either way.
func (s *save) fill(ctx context.Context, stream *cluster.SnapshotStream, target *part) (*Manifest, error) {
	straight := target != nil && s.o.Compression == spool.None
	switch {
	case straight:
		return s.fillStraight(ctx, stream, target.File)
	case s.o.Verify == VerifiedHash:
		return s.fillUnchecked(stream, target)
	}
	raw, err := spool.Temp(s.o.spoolDir())
	if err != nil {
		return nil, spoolError(err)
	}
	m, err := s.fillSpooled(ctx, stream, raw, target)
	return m, errors.Join(err, raw.Close())
}

// spoolError is that of a folder in which no file can be made: in a container that is
// often the whole root.
func spoolError(err error) error {
	var at *os.PathError
	var e *fault.Error
	if !errors.As(err, &at) || !errors.As(fileError(opSave, filepath.Dir(at.Path), err), &e) {
		return err
	}
	return e.WithHint("a folder to put the snapshot into while it is checked: name another one with --spool-dir; --verify=hash does without")
}

// fillStraight: into the target, which is checked while it goes to the disk.
func (s *save) fillStraight(ctx context.Context, stream *cluster.SnapshotStream, f *os.File) (*Manifest, error) {
	h, err := s.receiveInto(stream, f)
	if err != nil {
		return nil, err
	}
	m := s.manifest(h)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(f.Sync)
	if s.o.Verify == VerifiedFull {
		g.Go(func() error { return s.check(ctx, f, h, m) })
	}
	return m, g.Wait()
}

// fillUnchecked: through the compression or into the pipe, with nothing to be
// taken back any more. Whether the hash fits shows at the end.
func (s *save) fillUnchecked(stream *cluster.SnapshotStream, target *part) (*Manifest, error) {
	st := newStored(s.writer(target))
	z, err := spool.Pack(st, s.o.Compression)
	if err != nil {
		return nil, err
	}
	h, err := s.receiveInto(stream, z)
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, err
	}
	m := s.manifest(h)
	m.SizeBytes, m.SHA256 = st.n, st.sha256()
	if target == nil {
		return m, nil
	}
	return m, target.Sync()
}

// fillSpooled: into a file without a name, and on from there. Into a file it is
// compressed while it is checked, into a pipe only what was found whole goes.
func (s *save) fillSpooled(ctx context.Context, stream *cluster.SnapshotStream, raw *os.File, target *part) (*Manifest, error) {
	h, err := s.receiveInto(stream, raw)
	if err != nil {
		return nil, err
	}
	m := s.manifest(h)
	var st *stored
	deliver := func(ctx context.Context) (err error) {
		st, err = pack(ctx, raw, h.at, s.writer(target), s.o.Compression, s.sink)
		return err
	}
	if target == nil {
		if err = s.check(ctx, raw, h, m); err == nil {
			err = deliver(ctx)
		}
	} else {
		g, gctx := errgroup.WithContext(ctx)
		g.Go(func() error { return s.check(gctx, raw, h, m) })
		g.Go(func() error {
			if err := deliver(gctx); err != nil {
				return err
			}
			return errors.Join(checkPacked(target.File, m.SnapshotSHA256), target.Sync())
		})
		err = g.Wait()
	}
	if err != nil {
		return nil, err
	}
	m.SizeBytes, m.SHA256 = st.n, st.sha256()
	return m, nil
}

func (s *save) writer(target *part) io.Writer {
	if target == nil {
		return s.o.Out
	}
	return target
}

// receiveInto reads the member.
func (s *save) receiveInto(stream *cluster.SnapshotStream, w io.Writer) (*hashing, error) {
	if f, ok := w.(*os.File); ok {
		if err := reserve(f, stream.Size); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	h, err := receive(stream, s.member.Label(), w, s.sink)
	s.out.ReceiveSeconds = time.Since(began).Seconds()
	return h, err
}

// manifest begins with what the stream says of itself.
func (s *save) manifest(h *hashing) *Manifest {
	sum := h.fileSum()
	return &Manifest{Format: manifestFormat, SizeBytes: h.at, SHA256: sum, SnapshotBytes: h.at, SnapshotSHA256: sum, DataSHA256: h.out.pages}
}

// check judges the snapshot as `kvd snapshot verify` does, with the hashes that
// were made on the way, and puts into the manifest what is in it.
func (s *save) check(ctx context.Context, f io.ReaderAt, h *hashing, m *Manifest) error {
	name := s.o.Dest
	db, err := dbfile.New(name, f, h.at)
	if err != nil {
		return s.notWhole(fault.CauseOf(err), fault.Why(err))
	}
	e, err := examine(ctx, db, h, opSave, s.sink)
	if err != nil {
		return err
	}
	v := e.verification()
	c := v.Content
	m.Revision, m.CompactRevision, m.Keys, m.Revisions, m.KV = c.Revision, c.CompactRevision, c.Keys, c.Revisions, c.Digests.KV
	m.ConsistentIndex, m.Term, m.ClusterVersion = c.ConsistentIndex, c.Term, c.ClusterVersion
	s.out.Findings = v.Findings
	switch {
	case v.Verdict != Restorable:
		return s.notWhole(string(v.Class), v.Verdict.Words()+": "+v.Summary)
	case c.Revision < s.start:
		return &fault.Error{Kind: fault.Internal, Cause: "old_snapshot", Op: opSave, Subject: s.member.Label(),
			Msg: fmt.Sprintf("the snapshot is of revision %d, and the cluster was at %d before", c.Revision, s.start), Hint: "run the command again, with another --member"}
	}
	return nil
}

// notWhole is said of what arrived as it was sent, and is no backup all the same.
func (s *save) notWhole(cause, why string) error {
	return &fault.Error{Kind: fault.Damage, Cause: cause, Op: opSave, Subject: s.member.Label(),
		Msg:  "the member's own data is damaged; its snapshot is " + why,
		Hint: "save from another --member, and replace this one (`kvd member replace`); --verify=hash saves it as it is"}
}
