package server

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// lockPatience is how long a start waits for another process to leave the data
// directory. A predecessor that was told to stop drains its clients for up to
// etcd's request timeout, 7 s by default. etcd itself waits for ever and says so
// after 10 s.
const lockPatience = 8 * time.Second

// waitForDataDir waits until no other process has the member's database open.
func waitForDataDir(ctx context.Context, lg *zap.Logger, dir string) error {
	path := filepath.Join(dir, "member", "snap", "db")
	locked, err := isLocked(path)
	if err != nil || !locked {
		sayReaders(lg, path)
		return nil //nolint:nilerr // whatever is wrong with the file, etcd says it better
	}
	lg.Warn("another process has the data directory open; waiting for it to leave",
		zap.String("path", path), zap.Duration("patience", lockPatience))
	deadline := time.NewTimer(lockPatience)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if locked, err := isLocked(path); err != nil || !locked {
				return nil //nolint:nilerr // as above
			}
		case <-deadline.C:
			return &fault.Error{Kind: fault.Unavailable, Cause: "data_dir_locked", Op: opServe, Subject: dir,
				Msg:  fmt.Sprintf("another process has had the data directory open for %s", lockPatience),
				Hint: "a member runs there already (fuser " + path + " shows which process): stop it, or give another --data-dir"}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sayReaders names who has the database open to read it: etcd waits for them as well,
// without end, and would not say for whom.
func sayReaders(lg *zap.Logger, path string) {
	for _, h := range dbfile.LockedBy(path) {
		lg.Warn("another process reads the database; the start waits until it has ended", zap.String("path", path), zap.Stringer("process", h))
	}
}
