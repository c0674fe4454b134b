package wal

import (
	"context"
	"fmt"

	"kvd/pkg/ops/fault"
)

// CauseForce is that of an error of CheckForce.
const CauseForce = "force_new_cluster"

// CheckForce says why etcd ends on the log in a WAL folder, and the database named, if it
// is started with --force-new-cluster. It removes all other members from the cluster,
// in its log, and does not make a voter of its own one: where that is a learner, or was
// removed before, raft panics with "removed all voters" (CreateConfigChangeEnts in
// server/storage/util.go). What it has written until then stays, so that the files are of no
// more use to the cluster that they are of.
//
// nil is that nothing is known against it. Errors are of kind Refused; what cannot be read
// is no error, for a start tells of it better.
func CheckForce(ctx context.Context, dir, db string) error {
	found, err := Find(dir)
	if err != nil {
		return nil //nolint:nilerr // as said above
	}
	x, err := examine(ctx, found, VerifyOptions{DB: db, DBLost: true})
	if err != nil {
		return ctx.Err()
	}
	if x.Database == nil || x.Database.Unread != "" {
		return nil
	}
	who := fmt.Sprintf("this member, %s, ", x.Member)
	switch {
	case x.standing == wasRemoved:
		who += "was removed from the cluster"
	case x.standing == isMember && x.isLearner() && !x.promoted():
		who += "is a learner"
	default:
		return nil
	}
	return &fault.Error{Kind: fault.Refused, Cause: CauseForce, Op: "force a new cluster", Subject: dir,
		Msg: who + ": etcd would write the removal of all others into its log, and then end with \"removed all voters\"",
		Hint: fmt.Sprintf("take the data directory of a member that votes; if this is all there is: keep a copy of it, then `kvd snapshot restore %s --skip-hash-check --data-dir NEW` makes a cluster of its data",
			x.Database.Path)}
}

// promoted reports that a forced start makes a voter of the log's own member after all, by
// an entry that the database does not have yet.
func (x *exam) promoted() bool {
	voter := false
	for _, e := range x.members {
		if e.member == x.Member && e.id.Index > x.Database.ConsistentIndex && e.id.Index <= x.state.Commit && e.change != "" {
			voter = e.change == "promote" || e.change == "add"
		}
	}
	return voter
}
