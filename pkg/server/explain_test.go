package server

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"kvd/pkg/ops/fault"
)

// A database that is no database is damage; one that can't be opened is not.
func TestExplainDamagedDatabase(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]fault.Kind{
		"failed to open database (path d/member/snap/db): invalid database":           fault.Damage,
		"failed to open database (path d/member/snap/db): checksum error":             fault.Damage,
		"failed to open database (path d/member/snap/db): open db: permission denied": fault.Unavailable,
		"failed to open WAL: openAtIndex failed: wal: file not found which matches":   fault.Damage,
	} {
		err := explainStart(embed.NewConfig(), errors.New(text))
		if got := fault.KindOf(err); got != want {
			t.Errorf("%s: %v, want %v (%v)", text, got, want, err)
		}
		if want == fault.Damage && !strings.Contains(fault.HintOf(err), "kvd member replace") {
			t.Errorf("%s: %v names no command that helps", text, err)
		}
	}
}

// A disk that is full and a file that may not be touched are neither damage nor a
// defect, whatever etcd says beside that.
func TestExplainWhatTheSystemSays(t *testing.T) {
	t.Parallel()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.WalDir = "d", "/mnt/wal"
	failed := func(msg, op, path string, errno syscall.Errno) error {
		return fatalError(msg, []zapcore.Field{zap.Error(&fs.PathError{Op: op, Path: path, Err: errno})})
	}
	for _, tc := range []struct {
		err         error
		cause, hint string
	}{
		{failed("failed to commit tx", "write", "d/member/snap/db", syscall.ENOSPC), "disk_full", "make room"},
		{failed("failed to save Raft hard state and entries", "write", "d/member/wal/0.wal", syscall.ENOSPC), "disk_full", "make room"},
		{failed("failed to create WAL", "write", "d/member/wal.tmp", syscall.EDQUOT), "disk_full", "make room"},
		{failed("failed to open WAL", "open", "d/member/wal/0.wal", syscall.EACCES), "data_dir", "read and write all"},
		{failed("failed to open WAL", "open", "d/member/wal/0.wal", syscall.EROFS), "data_dir", "read-only"},
		{failed("failed to save Raft hard state and entries", "write", "d/member/wal/0.wal", syscall.EPERM), "data_dir", "read and write all"},
		{failed("failed to create WAL", "unlinkat", cfg.WalDir, syscall.EBUSY), "data_dir", "mount point"},
	} {
		err := explainStart(cfg, tc.err)
		if fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != tc.cause || !strings.Contains(fault.HintOf(err), tc.hint) {
			t.Errorf("%v: %s, %s, hint %q; want unavailable, %s, %q", err, fault.KindOf(err), fault.CauseOf(err), fault.HintOf(err), tc.cause, tc.hint)
		}
	}
	full := &hearing{}
	full.wrap(zap.NewNop()).Warn("failed to copy", zap.String("to", "0.wal.broken"), zap.Error(&fs.PathError{Op: "write", Path: "0.wal.broken", Err: syscall.ENOSPC}))
	err := explainStart(cfg, full.because(fatalError("failed to repair WAL", []zapcore.Field{zap.Error(io.ErrUnexpectedEOF)})))
	if fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != "disk_full" {
		t.Errorf("a repair that had no room: %v", err)
	}
	if err := explainStart(cfg, (&hearing{}).because(errors.New("failed to repair WAL: unexpected EOF"))); fault.KindOf(err) != fault.Damage {
		t.Errorf("a repair that failed and said nothing: %v", err)
	}
	if err := explainStart(cfg, errors.New("failed to open WAL: crc mismatch")); fault.KindOf(err) != fault.Damage {
		t.Errorf("%v is no damage", err)
	}
}
