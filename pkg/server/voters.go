package server

import (
	"context"
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/embed"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// checkVoters refuses to start a member by whose database all members are learners.
// etcd takes its voters from the database, and raft ends the whole process with a
// stack trace where there are none (Restore in raft/confchange). So stands a member that
// was promoted under etcd 3.5.1 to 3.5.19, which forgot that in the database, and is
// the only one left.
func checkVoters(ctx context.Context, cfg *embed.Config) error {
	db := dbPath(cfg)
	if _, err := os.Stat(db); err != nil || !hasWAL(walPath(cfg)) {
		return nil //nolint:nilerr // nothing to judge
	}
	f, err := dbfile.Open(db)
	if err != nil {
		return nil //nolint:nilerr // whatever is wrong with the file, etcd says it better
	}
	defer f.Close() //nolint:errcheck // only read
	members, err := f.Members(ctx)
	if err != nil || len(members) == 0 {
		return nil //nolint:nilerr // as above
	}
	for _, m := range members {
		if !m.IsLearner {
			return nil
		}
	}
	return &fault.Error{Kind: fault.Refused, Cause: "no_voter", Op: opServe, Subject: cfg.Name,
		Msg:  fmt.Sprintf("by %s all members of the cluster (%d) are learners, so that nobody votes, and etcd would end with \"removed all voters\"", db, len(members)),
		Hint: "nothing is damaged; kvd wal verify on the data directory says what to do, also where an update from 3.5 has brought it to that"}
}
