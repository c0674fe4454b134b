package wal

import (
	"fmt"

	"kvd/pkg/ops/dbfile"
)

// CauseLocked is a database that a process has locked which is not a server of the log.
const CauseLocked = "db_locked"

// remarkLocks tells of what makes a start wait: etcd wants its database for itself, and
// tries again without end (OpenBackend in server/storage/backend.go; flock in bbolt's
// bolt_unix.go, with no timeout). A server that has it and the log is no news.
func (x *exam) remarkLocks(db string) {
	if x.Live != "" {
		return
	}
	for _, h := range dbfile.LockedBy(db) {
		look := "fuser -v " + db
		if h.PID > 0 {
			look = fmt.Sprintf("ps -fp %d", h.PID)
		}
		x.add(Warning, CauseLocked, look+"  # let it end, or end it, before the member is started: nothing is wrong with the files",
			"%s has %s locked: a start waits for that without end, and says so once, after 10 s", h, db)
	}
}
