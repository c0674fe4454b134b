package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
)

const opVerify = "snapshot verify"

// BootOptions of VerifyBoot.
type BootOptions struct {
	// Server is the program that is started. The zero value is this program
	// itself, as `kvd serve`.
	Server local.Command
	// SpoolDir is where the content of a compressed file is unpacked; empty is
	// the system's folder for temporary files.
	SpoolDir string
}

// BootCheck is what became of a member that was started on what a restore made of
// a file.
type BootCheck struct {
	Passed  bool   `json:"passed"`
	Summary string `json:"summary"`
	// KV is the member's own digest at the file's revision.
	KV *KVHash `json:"kv,omitempty"`
	// WrittenRevision is that of a write that was read back through the quorum; 0
	// where none was made.
	WrittenRevision int64    `json:"written_revision,omitempty"`
	NotChecked      []string `json:"not_checked"`   // and why
	Log             string   `json:"log,omitempty"` // its last lines, where it failed
	TookSeconds     float64  `json:"took_seconds"`
}

// bootTries is how often a trial is made again because another process took a port
// that was chosen for it.
const bootTries = 3

// VerifyBoot judges a file as Verify does, and then by trial: it is restored into a
// temporary folder (of os.TempDir), and a real member is started on that as a child
// process on loopback. Its digest of the keys at the file's revision must be the
// file's; then it has to take a write and give it back through its quorum. Process
// and folder are gone at the end. A file that is not restorable is not tried.
//
// Where the trial could not be made the error says why, beside the judgement
// without it; one that ends with its context is judged nothing.
func VerifyBoot(ctx context.Context, path string, o BootOptions, sink progress.Sink) (*Verification, error) {
	r := &Restore{path: path, spool: o.SpoolDir, sink: sink}
	if err := r.load(ctx, opVerify); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	v := r.Verification
	if v.Verdict == NotRestorable {
		return v, r.Close()
	}
	var err error
	began := time.Now()
	for range bootTries {
		v.Boot, err = r.boot(ctx, o)
		if fault.CauseOf(err) != "address_in_use" {
			break
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), r.Close())
	}
	if err != nil {
		err = &fault.Error{Kind: fault.KindOf(err), Cause: fault.CauseOf(err), Op: opVerify, Subject: path,
			Msg: "no member could be tried on it: " + fault.Why(err), Hint: fault.HintOf(err)}
		return v, errors.Join(err, r.Close())
	}
	v.Boot.TookSeconds = time.Since(began).Seconds()
	if !v.Boot.Passed {
		v.Verdict, v.Class, v.Summary, v.Hint = NotRestorable, ClassBootFailed, v.Boot.Summary, restoreOther()
	}
	return v, r.Close()
}

// boot makes one trial. An error means that it could not be made.
func (r *Restore) boot(ctx context.Context, o BootOptions) (check *BootCheck, err error) {
	size := r.Verification.SizeBytes
	c, err := local.New(local.Options{
		Command:    o.Server,
		QuotaBytes: 2*size + 1<<30,
		// A start reads the whole file, from a slow disk maybe.
		ReadyTimeout: local.DefaultReadyTimeout + time.Duration(size>>20)*50*time.Millisecond,
		Args:         []string{"--unsafe-no-fsync"}, // nothing of it is kept
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	check = &BootCheck{NotChecked: []string{}}
	if err := r.restoreForTrial(ctx, c); err != nil {
		return nil, err
	}
	if n := len(r.Verification.Content.Alarms); n > 0 {
		check.NotChecked = append(check.NotChecked, fmt.Sprintf("what the cluster refuses while the %s inside: left out of the trial", count(int64(n), "alarm is", "alarms are")))
	}
	r.sink.Event(progress.Event{Op: opVerify, Subject: r.path, Phase: "start a member on it"})
	if err := c.StartMember(ctx, 0); err != nil {
		var e *fault.Error
		if fault.CauseOf(err) == "not_ready" && errors.As(err, &e) {
			return nil, e.WithHint("try again on a machine that does less meanwhile") // its log goes with it
		}
		if fault.CauseOf(err) != local.CauseExited || noFault(c) {
			return nil, err
		}
		check.fail(c, "a member that is started on it ends: "+fault.Why(err))
		return check, nil
	}
	if err := r.examineMember(ctx, c, check); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		if errors.Is(err, context.DeadlineExceeded) || noFault(c) {
			return nil, &fault.Error{Kind: fault.Unavailable, Cause: "not_ready", Op: opVerify, Subject: c.Name(0), Err: err,
				Msg: "it did not answer in time, or was killed", Hint: "try again on a machine that does less meanwhile"}
		}
		check.fail(c, fault.Why(err))
		return check, nil
	}
	check.Passed = true
	check.Summary = "a member started on it has the file's keys, by its own digest"
	if check.WrittenRevision > 0 {
		check.Summary += ", and took a write"
	}
	return check, c.Stop(ctx)
}

// noFault reports that the member has ended by no fault of the file: killed from
// without, as by a kernel that is short of memory, or for want of something that it
// needs of the machine (docs/exit-codes.md, unavailable).
func noFault(c *local.Cluster) bool {
	code, ended := c.ExitCode(0)
	return ended && (code == -1 || code == 4)
}

func (b *BootCheck) fail(c *local.Cluster, why string) {
	b.Passed, b.Summary, b.Log = false, why, c.LogTail(0, 20)
}

// restoreForTrial restores the file into the folder of a member that was not
// started. Nothing is known of the hash that Verify has not said.
func (r *Restore) restoreForTrial(ctx context.Context, c *local.Cluster) error {
	r.Recipe = Recipe{Members: []RecipeMember{{Name: c.Name(0), PeerURLs: []string{c.PeerURL(0)}}}, ClearAlarms: true, SkipHashCheck: true}
	r.members = nil
	if err := r.aimAll([]RestoreTarget{{Name: c.Name(0), DataDir: c.DataDir(0)}}); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	_, err := r.Plan.Run(ctx, nil, progress.Discard)
	var e *fault.Error
	if fault.CauseOf(err) == "disk_space" && errors.As(err, &e) {
		return e.WithHint("TMPDIR names another folder for the trial")
	}
	return err
}
