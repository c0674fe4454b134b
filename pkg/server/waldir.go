package server

import (
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"kvd/pkg/ops/fault"
)

// checkWALDir looks for a member whose database is there and whose write-ahead
// log is not where it is looked for. etcd begins a new log then and a new cluster
// with it, on top of the old database, without a word.
func checkWALDir(lg *zap.Logger, dir, walDir string) error {
	db := filepath.Join(dir, "member", "snap", "db")
	usual := filepath.Join(dir, "member", "wal")
	if _, err := os.Stat(db); err != nil || hasWAL(usual) && walDir == "" || walDir != "" && hasWAL(walDir) {
		return nil
	}
	if walDir != "" && hasWAL(usual) {
		return &fault.Error{Kind: fault.Usage, Cause: "wal_dir", Op: opServe, Subject: walDir,
			Msg:  "no write-ahead log there, but there is one in " + usual + ", where this member has had it",
			Hint: "leave --wal-dir out; or, to move the log, stop the member and move the files"}
	}
	// A member that was killed in its very first moments looks the same, so this
	// is no more than a warning.
	lg.Warn("there is a database but no write-ahead log: if this member has had a --wal-dir, stop now and give it",
		zap.String("path", db))
	return nil
}

func hasWAL(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	return err == nil && len(files) > 0
}
