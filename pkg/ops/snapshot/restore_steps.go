package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
)

// recordName is the file in DATA/member that says what a member was restored from.
// etcd leaves other files there alone.
const recordName = "kvd-restore.json"

// RestoreRecord is what that file says.
type RestoreRecord struct {
	Recipe  Recipe    `json:"plan"`
	Name    string    `json:"name"`
	ID      ID        `json:"id"`
	Cluster ID        `json:"cluster_id"`
	At      time.Time `json:"at"`
	// The db as it was left: a server that has run on it has changed it.
	DBTime  time.Time `json:"db_time"`
	DBBytes int64     `json:"db_bytes"`
}

// makePlan makes the plan: all members are built aside, then each is put into its
// place.
func (r *Restore) makePlan() error {
	cl, err := r.Recipe.cluster()
	if err != nil {
		return err
	}
	detail := &RestoreDetail{Recipe: r.Recipe, ClusterID: ID(cl.ID()), Verdict: r.Verification.Verdict, Members: []RestoreMember{}}
	p := &plan.Plan{Op: opRestore, Detail: detail}
	build := plan.Step{Guard: r.ready, Do: r.build}
	var names []string
	for _, m := range r.members {
		m.ID = ID(cl.MemberByName(m.Name).ID)
		detail.Members = append(detail.Members, r.describe(m))
		if m.done {
			if err := r.sameRestore(m, detail.ClusterID); err != nil {
				return err
			}
		} else {
			names = append(names, m.Name)
		}
		p.Steps = append(p.Steps, r.placeStep(m))
	}
	if len(names) > 0 {
		build.StepResult = plan.StepResult{Subject: strings.Join(names, ", "), Action: "build aside and compare with " + filepath.Base(r.path),
			BeforeBytes: plan.Bytes(r.Verification.SizeBytes)}
		p.Steps = append([]plan.Step{build}, p.Steps...)
	}
	detail.Next = r.next()
	p.Notes = append(r.notes(), detail.Next...)
	r.Plan = p
	return nil
}

func (r *Restore) placeStep(m *memberRestore) plan.Step {
	s := plan.Step{StepResult: plan.StepResult{Subject: m.Name, Action: "put into " + m.data.path}, AfterEarlier: true,
		Do: func(context.Context, *plan.StepResult) error { return m.place() }}
	if m.wal.path != "" {
		s.Action += ", the log into " + m.wal.path
	}
	return s
}

// sameRestore says whether the data that are in a member's place are what this
// restore would put there, untouched, and with their log where it would put that.
func (r *Restore) sameRestore(m *memberRestore, cluster ID) error {
	rec := readRecord(m.data.path)
	what := fmt.Sprintf("%s, restored by kvd %s from a snapshot with revision %d (sha256 %s)", rec.Name, rec.At.Format(time.RFC3339), rec.Recipe.Snapshot.Revision, short(rec.Recipe.Snapshot.SHA256))
	if info, err := os.Stat(dbOf(m.data.path)); err != nil || info.Size() != rec.DBBytes || !info.ModTime().Equal(rec.DBTime) {
		return occupied(m.data.path, what+", and used since")
	}
	if rec.Name != m.Name || rec.ID != m.ID || rec.Recipe.Snapshot != r.Recipe.Snapshot || rec.Recipe.BumpRevision != r.Recipe.BumpRevision || rec.Recipe.ClearAlarms != r.Recipe.ClearAlarms {
		return occupied(m.data.path, what)
	}
	if rec.Cluster != cluster {
		return occupied(m.data.path, fmt.Sprintf("%s, as a member of cluster %s, and with these members it would be %s", what, rec.Cluster, cluster))
	}
	if log := m.logDir(); !holdsLog(log) {
		return &fault.Error{Kind: fault.Refused, Cause: "target_exists", Op: opRestore, Subject: m.data.path,
			Msg: "there is something already: " + what + ", and its log is not in " + log, Hint: "give the --wal-dir that it was restored with, or none if that had none"}
	}
	return nil
}

// logDir is where a member's log is once it is in its place.
func (m *memberRestore) logDir() string {
	if m.wal.path != "" {
		return m.wal.path
	}
	return filepath.Join(m.data.path, "member", "wal")
}

// ready is asked before anything is created.
func (r *Restore) ready(context.Context) error {
	info, err := os.Stat(r.path)
	if err != nil {
		return fileError(opRestore, r.path, err)
	}
	if info.Size() != r.stat.Size() || !info.ModTime().Equal(r.stat.ModTime()) || !os.SameFile(info, r.stat) {
		return &fault.Error{Kind: fault.Refused, Cause: "file_changed", Op: opRestore, Subject: r.path, Msg: "it has changed since it was verified", Hint: "run the command again"}
	}
	var need int64
	for _, m := range r.members {
		if m.done {
			continue
		}
		if err := m.aim(); err != nil {
			return err
		}
		if m.done {
			return occupied(m.data.path, "another restore has just put it there")
		}
		need += r.source.data + restoreOverhead
	}
	for _, m := range r.members {
		// With folders on several file systems it asks for more than each needs,
		// and never for less.
		if err := room(filepath.Dir(m.data.aside), need); err != nil {
			return err
		}
		if m.wal.path != "" {
			if err := room(filepath.Dir(m.wal.aside), restoreOverhead); err != nil {
				return err
			}
		}
	}
	return nil
}

// room refuses where a folder's file system has less than that free.
func room(dir string, need int64) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Dir(dir) // it will be made there
	}
	if free, known := freeBytes(dir); known && free < need {
		return &fault.Error{Kind: fault.Refused, Cause: "disk_space", Op: opRestore, Subject: dir,
			Msg: fmt.Sprintf("%d MiB are free, and %d MiB are needed", free>>20, need>>20), Hint: "make room, or restore to another disk"}
	}
	return nil
}

// restoreOverhead is what a member needs beside its pages: the first segment of the
// log, and a step of growth of the db.
const restoreOverhead = 64<<20 + 16<<20

// enter opens the folders that a member is built in, that of the data first, and
// removes what an interrupted restore had put into its place already.
func (m *memberRestore) enter() error {
	data, err := m.data.open(m.wal.path)
	if err != nil {
		return err
	}
	m.places = append(m.places, data)
	if old := data.old; old != nil && old.WALDir != "" && old.ownsWAL(old.WALDir) {
		if err := os.RemoveAll(old.WALDir); err != nil {
			return fileError(opRestore, old.WALDir, err)
		}
	}
	if m.wal.path != "" {
		wal, err := m.wal.open("")
		if err != nil {
			return err
		}
		m.places = append(m.places, wal)
	}
	for _, w := range m.places {
		if err := w.begin(); err != nil {
			return err
		}
	}
	return nil
}

// place puts what was built into its place: the log first, since a server that
// finds data without a log would begin a new one, and one that finds a log without
// data does not start.
func (m *memberRestore) place() error {
	if m.done {
		if err := m.tidy(); err != nil {
			return err
		}
		return plan.Skip("an earlier run has put it there")
	}
	for i := len(m.places) - 1; i >= 0; i-- {
		if err := m.places[i].place(); err != nil {
			return errors.Join(err, m.takeBack(i))
		}
	}
	if m.wal.path != "" {
		if err := os.Remove(filepath.Join(m.wal.path, walMarker)); err != nil {
			return fileError(opRestore, m.wal.path, err)
		}
	}
	return m.leave()
}

// takeBack moves what was put into its place before place failed back to where it was
// built, unless what failed came after the rename there: data must not lose their log.
func (m *memberRestore) takeBack(failed int) error {
	if _, err := os.Lstat(m.places[failed].from); err != nil {
		return nil //nolint:nilerr // it is in its place
	}
	for _, w := range m.places[failed+1:] {
		if err := os.Rename(w.to, w.from); err != nil {
			return fileError(opRestore, w.to, err)
		}
	}
	return nil
}

// tidy removes what a run that was interrupted at its very end has left of a
// member that is in its place.
func (m *memberRestore) tidy() error {
	asides := []string{asideOf(m.data.path), filepath.Join(m.data.path, asideSuffix)}
	if m.wal.path != "" {
		asides = append(asides, asideOf(m.wal.path))
		if err := os.Remove(filepath.Join(m.wal.path, walMarker)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fileError(opRestore, m.wal.path, err)
		}
	}
	for _, dir := range asides {
		if _, err := os.Lstat(dir); err != nil {
			continue
		}
		w, err := target{path: m.data.path, aside: dir}.open("")
		if err != nil {
			return err
		}
		m.places = append(m.places, w)
	}
	return m.leave()
}

// leave removes the folders that a member was built in.
func (m *memberRestore) leave() error {
	var errs []error
	for _, w := range m.places {
		errs = append(errs, w.close())
	}
	m.places = nil
	return errors.Join(errs...)
}

// readRecord reads what a data directory was restored from; nil where it was not,
// or not by kvd.
func readRecord(dataDir string) *RestoreRecord {
	raw, err := os.ReadFile(filepath.Join(dataDir, "member", recordName))
	rec := &RestoreRecord{}
	if err != nil || json.Unmarshal(raw, rec) != nil || rec.Name == "" {
		return nil
	}
	return rec
}
