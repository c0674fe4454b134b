package ops

import (
	"context"

	"kvd/pkg/ops/cluster"
)

// refreshSizes has every member that answers count its free pages anew. Pages
// that a compaction freed count as free only with the commit of a write after
// it, and where nobody writes (under NOSPACE nobody can) a follower goes on
// telling the bytes in use of before the compaction. Opening a snapshot makes a
// member commit (server/storage/backend, Snapshot), changes nothing, and works
// without space; it is closed again before more than a first piece was sent.
//
// It is a favour to whoever reads the sizes: errors, such as that of a user who
// may not take snapshots, are dropped.
func refreshSizes(ctx context.Context, client *cluster.Client, view cluster.View) {
	for _, m := range view.Answered() {
		mc, err := client.Member(m.ID)
		if err != nil {
			continue
		}
		// Twice: the first commit may come while a read transaction still holds
		// on to the pages.
		refreshMember(ctx, mc)
		refreshMember(ctx, mc)
	}
}

// trueSizes returns the view again with sizes that can be trusted where nobody
// writes. While writes pass, every commit counts anew, and nothing is done.
func trueSizes(ctx context.Context, client *cluster.Client, view cluster.View) (cluster.View, error) {
	if !view.HasAlarm(cluster.AlarmNoSpace) {
		return view, nil
	}
	refreshSizes(ctx, client, view)
	fresh, err := client.VotersView(ctx)
	return assumeLike(fresh, view), err
}

func refreshMember(ctx context.Context, m *cluster.MemberClient) {
	ctx, cancel := context.WithTimeout(ctx, cluster.DefaultCommandTimeout)
	defer cancel()
	if stream, err := m.Snapshot(ctx); err == nil {
		stream.Close()
	}
}
