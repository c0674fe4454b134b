package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// RestoreOptions say what to restore, and which of its members here.
type RestoreOptions struct {
	File   string
	Recipe Recipe // from a file, or with what flags say and nothing of the snapshot
	Here   []RestoreTarget
	// SpoolDir is where the content of a compressed file is unpacked; empty is
	// the system's folder for temporary files.
	SpoolDir string
}

// RestoreTarget is one member and where its data go.
type RestoreTarget struct {
	Name    string
	DataDir string
	WALDir  string // empty where the log is with the data
	// MakeParent makes the folder that one of them is to be in, where that is
	// absent. It goes again with a restore that fails.
	MakeParent bool
}

// Restore is a file that was verified, with a plan to make members of it. Close it
// at the end, whether the plan was run or not.
type Restore struct {
	Plan         *plan.Plan
	Recipe       Recipe // complete
	Verification *Verification

	path    string
	spool   string // RestoreOptions.SpoolDir
	file    *file
	stat    fs.FileInfo
	source  *examination
	members []*memberRestore
	parents []string // folders that were made for members to be in
	sink    progress.Sink
}

// memberRestore is a member on its way.
type memberRestore struct {
	RecipeMember
	dataDir, walDir string // as given
	makeParent      bool
	ID              ID
	data, wal       target // wal.path is empty where the log is with the data
	done            bool   // an earlier run has put it into its place
	places          []*workplace
}

// RestoreDetail is what programs want to know of a restore beside its steps.
type RestoreDetail struct {
	Recipe    Recipe          `json:"plan"`
	ClusterID ID              `json:"cluster_id"`
	Verdict   Verdict         `json:"verdict"`
	Members   []RestoreMember `json:"members"` // those that are restored here
	// Next is what to do before and after, in order.
	Next []string `json:"next"`
}

// RestoreMember is one of them.
type RestoreMember struct {
	Name    string `json:"name"`
	ID      ID     `json:"id"`
	DataDir string `json:"data_dir"`
	WALDir  string `json:"wal_dir,omitempty"`
	Start   string `json:"start"` // the command line
	Etcd    string `json:"etcd"`  // the same for stock etcd
}

// PlanRestore verifies a file and plans to make members' data of it. Nothing is
// created before the plan is run. The file stays open, with the lock that keeps a
// server from starting on it, until Close.
//
// Errors: fault.Usage where the options contradict each other, fault.Refused
// where a target is not free, the file is another one than the recipe's, the token
// was made for another restore or makes the old cluster again, a server holds the
// file, or it has no hash and the recipe does not say to go without;
// fault.Damage where it is not restorable.
func PlanRestore(ctx context.Context, o RestoreOptions, sink progress.Sink) (*Restore, error) {
	r := &Restore{Recipe: o.Recipe, path: o.File, spool: o.SpoolDir, sink: sink}
	if err := r.Recipe.check(); err != nil {
		return nil, err
	}
	if err := r.aimAll(o.Here); err != nil {
		return nil, err
	}
	err := r.load(ctx, opRestore)
	if err == nil {
		err = r.admit()
	}
	if err == nil {
		err = r.settle()
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close lets go of the file, and removes what a run that failed had built.
func (r *Restore) Close() error {
	var errs []error
	for _, m := range r.members {
		errs = append(errs, m.leave())
	}
	for _, dir := range r.parents {
		_ = os.Remove(dir) // stays where a member is in it
	}
	if r.file != nil {
		errs = append(errs, r.file.close())
	}
	return errors.Join(errs...)
}

// aimAll finds out where the members go.
func (r *Restore) aimAll(here []RestoreTarget) error {
	for _, t := range here {
		m, ok := r.Recipe.member(t.Name)
		if !ok {
			return recipeError("name", fmt.Sprintf("%q is none of the members %s", t.Name, strings.Join(r.Recipe.names(), ", ")), "--name is one of them")
		}
		mr := &memberRestore{RecipeMember: m, dataDir: t.DataDir, walDir: t.WALDir, makeParent: t.MakeParent}
		if err := mr.aim(); err != nil {
			return err
		}
		for _, other := range r.members {
			if other.data.path == mr.data.path || mr.wal.path != "" && other.wal.path == mr.wal.path {
				return recipeError("data_dir", fmt.Sprintf("%s and %s would be in the same folder", other.Name, mr.Name), "")
			}
		}
		r.members = append(r.members, mr)
	}
	return nil
}

func (m *memberRestore) aim() error {
	data, err := aim(m.dataDir, "member", m.makeParent)
	m.data = data
	if fault.CauseOf(err) == "target_exists" && readRecord(m.data.path) != nil {
		m.done, err = true, nil // whether it is of this restore is seen once the file was read
	}
	if err != nil || m.walDir == "" {
		return err
	}
	wal, err := aim(m.walDir, "", m.makeParent)
	if wal.path == filepath.Join(data.path, "member", "wal") {
		m.walDir = "" // where it is anyway
		return nil
	}
	wal.from = filepath.Join(wal.from, "wal") // etcd makes it beside that again, as wal.tmp
	m.wal = wal
	switch {
	case m.done, fault.CauseOf(err) == "target_exists" && readJournal(data.aside).ownsWAL(wal.path):
		err = nil
	case within(wal.path, data.path) || within(data.path, wal.path):
		err = recipeError("wal_dir", wal.path+" and "+data.path+" are one in the other", "give a folder of its own, or none")
	case fault.CauseOf(err) == "target_exists" && holdsLog(wal.path):
		err = occupied(wal.path, "the log of a member whose data are not in "+data.path+", and of no use without them")
	}
	return err
}

// within says whether a path is another or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// load opens the file, reads all of it, and judges it as Verify does. Of what is
// no backend file there is the judgement alone.
func (r *Restore) load(ctx context.Context, op string) error {
	f, err := open(ctx, r.path, Options{SpoolDir: r.spool}, op, r.sink)
	if fault.CauseOf(err) == "file_in_use" {
		return &fault.Error{Kind: fault.Refused, Cause: "file_in_use", Op: op, Subject: r.path, Msg: fault.Why(err),
			Hint: "it is a running member's own file: take a snapshot with `kvd snapshot save`, or stop the member"}
	}
	if err != nil {
		r.Verification, err = judgeUnopened(r.path, op, err)
		return err
	}
	r.file = f
	if r.stat, err = os.Stat(r.path); err != nil {
		return fileError(op, r.path, err)
	}
	if r.source, err = examine(ctx, f.File, nil, op, r.sink); err != nil {
		return err
	}
	r.source.status.Packed = f.packed()
	r.source.holdAgainstManifest()
	r.Verification = r.source.verification()
	return nil
}

// settle completes the recipe with what the file says.
func (r *Restore) settle() error {
	if err := r.Recipe.complete(r.Verification.Content); err != nil {
		return err
	}
	if to := r.bumpedTo(); to != 0 && to <= r.Verification.Content.Revision {
		return recipeError("bump_revision", fmt.Sprintf("%d is too little: the last record has revision %d, and %d is compacted already",
			r.Recipe.BumpRevision, r.source.content.last.Main, r.Verification.Content.Revision), "")
	}
	if err := r.refuseOldCluster(); err != nil {
		return err
	}
	return r.makePlan()
}

// admit refuses what is not restorable, and what needs a decision that was not made.
func (r *Restore) admit() error {
	v := r.Verification
	e := &fault.Error{Kind: fault.Damage, Cause: string(v.Class), Op: opRestore, Subject: r.path,
		Msg: v.Verdict.Words() + ": " + v.Summary, Hint: v.Hint}
	switch {
	case v.Verdict == NotRestorable:
		return e
	case v.Verdict == Restorable || r.Recipe.SkipHashCheck:
		return nil
	}
	if v.Verdict == Unproven {
		e.Kind = fault.Refused
	}
	e.Hint = "prefer another snapshot; --skip-hash-check restores this one as it is: " + r.loss()
	return e
}

// loss says what one goes without who skips the hash.
func (r *Restore) loss() string {
	switch {
	case r.Verification.Class == ClassTruncated:
		return "its structure is well, and part of a hash is little proof that the values are what they were"
	case r.Verification.Verdict == Unproven:
		return "its structure is well, and nothing proves that the values are what they were"
	}
	return "values may be wrong, or the last transaction missing"
}

// bumpedTo is the revision that the record has which lifts it, 0 for none. etcd
// counts from the last record.
func (r *Restore) bumpedTo() int64 {
	if r.Recipe.BumpRevision == 0 {
		return 0
	}
	return r.source.content.last.Main + r.Recipe.BumpRevision
}

func dbOf(dataDir string) string { return filepath.Join(dataDir, "member", "snap", "db") }
