package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"kvd/pkg/ops/atomicfile"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// buildsAtOnce is how many members are built at a time: each waits for the disk for
// as long as it computes.
const buildsAtOnce = 4

// build makes all members' data. The first is made by etcd's code of the file.
// The database of the others is the same to the byte, so that it is copied, by the
// file system itself where that can; only their logs differ, which say whose they
// are, and those are made by etcd's code as well.
func (r *Restore) build(ctx context.Context, res *plan.StepResult) error {
	var waiting []*memberRestore
	for _, m := range r.members {
		if !m.done {
			waiting = append(waiting, m)
		}
	}
	err := r.buildAll(ctx, waiting)
	if err != nil {
		for _, m := range waiting {
			err = errors.Join(err, m.leave())
		}
		return err
	}
	if info, err := os.Stat(waiting[0].builtDB()); err == nil {
		res.AfterBytes = plan.Bytes(info.Size())
	}
	s := r.Verification.Content
	res.Reason = fmt.Sprintf("%s and %s are equal to the file's, record for record; revision %d", count(s.Keys, "key", "keys"), count(s.Revisions, "revision", "revisions"), max(s.Revision, r.bumpedTo()))
	return nil
}

func (r *Restore) buildAll(ctx context.Context, waiting []*memberRestore) error {
	first := waiting[0]
	if err := r.makeParents(waiting); err != nil {
		return err
	}
	if err := r.enter(first); err != nil {
		return err
	}
	if err := r.runEtcdutl(ctx, first); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(buildsAtOnce)
	g.Go(func() error { return r.finish(gctx, first) })
	for _, m := range waiting[1:] {
		g.Go(func() error { return r.buildLike(gctx, first, m) })
	}
	return g.Wait()
}

// makeParents makes the folders that members are to be in.
func (r *Restore) makeParents(waiting []*memberRestore) error {
	for _, m := range waiting {
		for _, path := range []string{m.data.path, m.wal.path} {
			dir := filepath.Dir(path)
			if path == "" || !m.makeParent {
				continue
			}
			switch err := os.Mkdir(dir, 0o700); {
			case errors.Is(err, fs.ErrExist):
				continue
			case err != nil:
				return fileError(opRestore, dir, err)
			}
			r.parents = append(r.parents, dir)
			if err := atomicfile.SyncDir(filepath.Dir(dir)); err != nil {
				return fileError(opRestore, dir, err)
			}
		}
	}
	return nil
}

// buildLike makes a member's data beside one whose db is there.
func (r *Restore) buildLike(ctx context.Context, first, m *memberRestore) error {
	if err := r.enter(m); err != nil {
		return err
	}
	if err := r.runEtcdutlForLog(ctx, m); err != nil {
		return err
	}
	if err := copyFile(first.builtDB(), m.builtDB()); err != nil {
		return fileError(opRestore, m.builtDB(), err)
	}
	return r.finish(ctx, m)
}

// enter takes the folders of a member for this process.
func (r *Restore) enter(m *memberRestore) error {
	if err := m.enter(); err != nil {
		return err
	}
	for _, w := range m.places {
		if w.old != nil {
			r.sink.Event(progress.Event{Op: opRestore, Subject: m.Name, Phase: "clean up", State: "done", Note: "what an interrupted restore had left in " + w.aside})
		}
	}
	r.sink.Event(progress.Event{Op: opRestore, Subject: m.Name, Phase: "copy and set up"})
	return nil
}

// finish compares what was built with the file, and signs it.
func (r *Restore) finish(ctx context.Context, m *memberRestore) error {
	r.sink.Event(progress.Event{Op: opRestore, Subject: m.Name, Phase: "compare"})
	if err := r.prove(ctx, m.builtDB()); err != nil {
		return err
	}
	return m.sign(r, m.built())
}

// built is the folder that becomes a member's data directory.
func (m *memberRestore) built() string { return filepath.Join(m.data.aside, builtName) }

func (m *memberRestore) builtDB() string { return dbOf(m.built()) }

// builtWAL is the folder that becomes its log, empty where that is with the data.
func (m *memberRestore) builtWAL() string {
	if m.wal.path == "" {
		return ""
	}
	return m.wal.from
}

// copyPiece is how much is copied before the disk is to begin with it.
const copyPiece = 16 << 20

// copyFile puts the content of one file in the place of another's, and to disk. The
// system copies, without passing it through this process, where it can.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	for at := int64(0); err == nil; {
		var n int64
		if n, err = out.ReadFrom(io.LimitReader(in, copyPiece)); n == 0 {
			break
		}
		beginWriting(out, at, n)
		at += n
	}
	return errors.Join(err, out.Sync(), out.Close())
}

// sign leaves the record in what was built, and in a WAL folder whose it is.
func (m *memberRestore) sign(r *Restore, built string) error {
	info, err := os.Stat(dbOf(built))
	if err != nil {
		return fileError(opRestore, built, err)
	}
	cl, err := r.Recipe.cluster()
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(RestoreRecord{Recipe: r.Recipe, Name: m.Name, ID: m.ID, Cluster: ID(cl.ID()),
		At: time.Now().UTC().Truncate(time.Second), DBTime: info.ModTime(), DBBytes: info.Size()}, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(built, "member", recordName), append(raw, '\n'), 0o600)
	}
	if err == nil && m.wal.path != "" {
		err = os.WriteFile(filepath.Join(m.wal.from, walMarker), []byte(m.places[0].journal.ID), 0o600)
	}
	if err != nil {
		return fileError(opRestore, built, err)
	}
	return nil
}
