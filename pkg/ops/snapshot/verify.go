package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/spool"
)

// Inspect says what is in a snapshot or backend file. Of a damaged one the Status
// is what could be read, beside a fault.Damage error. It reads the whole file,
// and holds the lock that keeps a server from starting on it meanwhile.
//
// Errors without a Status are those of dbfile.Open.
func Inspect(ctx context.Context, path string, o Options, sink progress.Sink) (*Status, error) {
	const op = "snapshot status"
	f, err := open(ctx, path, o, op, sink)
	if err != nil {
		return nil, reword(err, op)
	}
	defer f.close() //nolint:errcheck // nothing was written
	e, err := examine(ctx, f.File, nil, op, sink)
	if err != nil {
		return nil, err
	}
	e.status.Packed = f.packed()
	e.holdAgainstManifest()
	j := e.verdict()
	switch {
	case j.verdict == Restorable || j.verdict == Unproven:
		return &e.status, nil
	case e.live && e.changed:
		return &e.status, &fault.Error{Kind: fault.Inconclusive, Cause: string(j.class), Op: op, Subject: path, Msg: j.summary, Hint: j.hint}
	}
	return &e.status, &fault.Error{
		Kind: fault.Damage, Cause: string(j.class), Op: op, Subject: path, Msg: j.summary,
		Hint: "`kvd snapshot verify` names each piece of damage, and what is lost with it",
	}
}

// Verify judges whether a restore would take a file. The judgement is the result,
// not an error: an error means that it could not be made. A path that holds
// something else than a backend file is judged too.
func Verify(ctx context.Context, path string, o Options, sink progress.Sink) (*Verification, error) {
	const op = "snapshot verify"
	f, err := open(ctx, path, o, op, sink)
	if err != nil {
		return judgeUnopened(path, op, err)
	}
	defer f.close() //nolint:errcheck // nothing was written
	e, err := examine(ctx, f.File, nil, op, sink)
	if err != nil {
		return nil, err
	}
	e.status.Packed = f.packed()
	e.holdAgainstManifest()
	return e.verification(), nil
}

// holdAgainstManifest compares the file with the manifest that lies beside it, which
// may be that of another one, as whole as this.
func (e *examination) holdAgainstManifest() {
	path, sum, in := ManifestPath(e.path), e.hashes.file, &e.status.Integrity
	if e.status.Packed != nil {
		sum = e.status.Packed.SHA256
	}
	switch m, err := ReadManifest(path); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENAMETOOLONG):
		in.Manifest = ManifestAbsent
	case err != nil:
		in.Manifest, in.ManifestMessage = ManifestUnreadable, fmt.Sprintf("%s, where the manifest would be, is none that can be read: %s", path, fault.Why(err))
	case m.SHA256 != sum:
		in.Manifest, in.ManifestMessage = ManifestMismatch, fmt.Sprintf("%s is the manifest of another file: its sha256 is %s, this one's %s", path, m.SHA256, sum)
		if own := e.status.Digests.KV; e.damaged == 0 && m.Verified == VerifiedFull && m.KV == own {
			in.ManifestMessage += fmt.Sprintf("; keys and values are those that it tells, by their digest %d at revision %d", own.Hash, own.Revision)
		}
	default:
		in.Manifest, e.manifest = ManifestMatches, m
	}
}

// verification puts the judgement over an examination beside what it rests on.
func (e *examination) verification() *Verification {
	j := e.verdict()
	return &Verification{
		File: e.path, SizeBytes: e.size, Packed: e.status.Packed, Verdict: j.verdict, Class: j.class, Summary: j.summary, Hint: j.hint,
		ExpectedBytes: e.data + dbfile.HashSize, MissingBytes: max(0, e.data-e.size, e.hashes.cut), ExtraBytes: e.hashes.extraBytes,
		DamagesFound: e.damaged, Findings: e.findings(), Content: &e.status,
	}
}

// judgeUnopened judges what could not even be opened as a backend file.
func judgeUnopened(path, op string, err error) (*Verification, error) {
	kind := dbfile.Kind(fault.CauseOf(err))
	damage := fault.KindOf(err) == fault.Damage
	if !damage && kind != dbfile.KindDirectory {
		return nil, reword(err, op)
	}
	v := &Verification{File: path, Verdict: NotRestorable, Class: ClassNotASnapshot, Summary: fault.Why(err), Hint: fault.HintOf(err)}
	if info, serr := os.Stat(path); serr == nil && kind != dbfile.KindDirectory {
		v.SizeBytes = info.Size()
	}
	finding := Finding{Severity: SeverityError, Class: string(kind), Message: v.Summary}
	switch {
	case kind == dbfile.KindDirectory:
		v.Summary = "a directory, not a snapshot"
	case kind == dbfile.DamageNoMeta:
		v.Class = ClassBadPages
		v.Hint = restoreOther()
	case kind == dbfile.KindCRLF, kind == dbfile.KindRecoded, kind == dbfile.KindBase64:
		v.Class = ClassConverted
	case kind == dbfile.KindPreceded:
		v.Class = ClassExtraBytes
	case kind == dbfile.KindShort || partialName(path):
		v.Class = ClassPartialDownload
	case fault.CauseOf(err) == spool.CauseTruncated:
		v.Class = ClassTruncated
	case fault.CauseOf(err) == spool.CauseExtra:
		v.Class = ClassExtraBytes
	case fault.CauseOf(err) == spool.CauseDamaged:
		v.Class = ClassBadCompression
	}
	if d, ok := dbfile.AsDamage(err); ok {
		v.Summary, finding.Page, finding.Offset = d.Msg, &d.Page, &d.Offset
	}
	v.Findings, v.DamagesFound = []Finding{finding}, 1
	return v, nil
}

// reword says which command an error of dbfile stopped.
func reword(err error, op string) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return e.On(op, e.Subject)
}

// verdict judges what was found, and records the judgement in the status.
func (e *examination) verdict() judgement {
	j := e.judge()
	in := &e.status.Integrity
	in.Class, in.Hash, in.Message = j.class, e.hashes.state, j.summary
	return j
}
