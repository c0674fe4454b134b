package drill

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// prove writes through every member what was refused before, lets Kubernetes'
// compactor have the round that it was refused, reads the last write back from
// every member, and sees that no alarm has come back.
func (s *nospace) prove(ctx context.Context) error {
	members, _, err := s.members(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	s.r.Proof.Writes = s.attempts(ctx, members)
	missing := writtenMissing(s.r.Proof.Writes)
	if len(missing) == 0 {
		missing = append(s.compactAgain(ctx, members[0]), s.readBack(ctx, members)...)
	}
	s.r.Proof.TookSeconds = time.Since(began).Seconds()
	sizes, view, err := s.measure(ctx, AtProof)
	if err != nil {
		return err
	}
	s.r.Sizes = append(s.r.Sizes, sizes)
	s.r.Proof.Alarms = append([]cluster.Alarm{}, view.Alarms...)
	return wholly(NotProved, missing, alarmsLeft(view.Alarms))
}

// compactAgain has the compactor write its marker.
func (s *nospace) compactAgain(ctx context.Context, m *cluster.MemberClient) []string {
	next := s.compactor.rev
	if _, err := s.compactor.round(ctx, m.Etcd()); err != nil {
		if err = m.Explain(ctx, "compact", err); !alreadyCompacted(err) {
			return []string{"Kubernetes' compactor still fails: " + err.Error()}
		}
	}
	s.r.Proof.CompactorNext = next
	return nil
}

// readBack reads the last write from each member's own data.
func (s *nospace) readBack(ctx context.Context, members []*cluster.MemberClient) []string {
	last := s.r.Proof.Writes[len(s.r.Proof.Writes)-1]
	var out []string
	for i, m := range members {
		// A linearizable read through this member: it waits until the member has
		// applied what was committed.
		got, err := m.Etcd().Get(ctx, last.Key)
		switch {
		case err != nil:
			out = append(out, fmt.Sprintf("%s does not serve the write back: %v", s.cluster.Name(i), m.Explain(ctx, "get", err)))
		case len(got.Kvs) != 1 || got.Kvs[0].ModRevision != last.Revision:
			out = append(out, fmt.Sprintf("%s does not have the write of revision %d", s.cluster.Name(i), last.Revision))
		}
	}
	if len(out) == 0 {
		s.r.Proof.Revision = last.Revision
	}
	return out
}

// alreadyCompacted says whether a compaction failed because the remedy has gone
// further; the marker, which is what matters, has been written by then.
func alreadyCompacted(err error) bool { return fault.CauseOf(err) == cluster.CauseCompacted }
