package drill

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
)

// prove looks for every write of the load on every member.
func (s *crash) prove(ctx context.Context) error {
	members, _, err := s.members(ctx)
	if err != nil {
		return err
	}
	var missing []string
	for i, m := range members {
		_, found, err := s.search(ctx, m, s.cluster.Name(i))
		if err != nil {
			return m.Explain(ctx, "get", err)
		}
		s.r.Proof.Members = append(s.r.Proof.Members, found)
		missing = append(missing, foundMissing(found)...)
	}
	return wholly(NotProved, missing, s.startsMissing())
}

// pageKeys is how many keys one read fetches.
const pageKeys = 1000

// search reads the load's keys through one member, all at one revision, and
// holds each against what was answered when it was written.
func (s *crash) search(ctx context.Context, m *cluster.MemberClient, name string) (map[string]bool, CrashFound, error) {
	found := CrashFound{Member: name}
	there := map[string]bool{}
	from, end := crashPrefix, clientv3.GetPrefixRangeEnd(crashPrefix)
	for rev := int64(0); ; {
		// Linearizable: this member has then applied whatever was committed.
		resp, err := m.Etcd().Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageKeys), clientv3.WithRev(rev))
		if err != nil {
			return there, found, err
		}
		if rev == 0 {
			rev = resp.Header.Revision
			found.Revision = rev
		}
		for _, kv := range resp.Kvs {
			key := string(kv.Key)
			there[key] = true
			found.Keys++
			whole := kv.Version == 1 && kv.CreateRevision == kv.ModRevision && string(kv.Value) == crashValue(key)
			acked, answered := s.load.revisions[key]
			_, sent := s.load.unanswered[key]
			switch {
			case answered && whole && kv.ModRevision == acked:
				found.ExactlyOnce++
			case answered:
				found.Wrong++
			case !sent:
				found.Foreign++
			case whole:
				found.UnansweredThere++
			default:
				found.UnansweredHalf++
			}
			from = key + "\x00"
		}
		if !resp.More {
			break
		}
	}
	for key := range s.load.revisions {
		if !there[key] {
			found.Lost++
		}
	}
	return there, found, nil
}

// share splits what a restarted member has applied: from its own log, or from
// the leader.
func (st *CrashStart) share(tail []logged, there map[string]bool) {
	for _, w := range tail {
		if there[w.key] {
			st.FromLog++
		} else {
			st.Dropped++
		}
	}
	st.FromLeader = st.Applied - st.FromLog
}

// foundMissing lists what is not as it was acknowledged.
func foundMissing(f CrashFound) []string {
	var out []string
	add := func(n int64, what string) {
		if n != 0 {
			out = append(out, fmt.Sprintf("on %s, %s: %d", f.Member, what, n))
		}
	}
	add(f.Lost, "acknowledged writes that are lost")
	add(f.Wrong, "acknowledged writes that are there otherwise than once, at their revision, with their value")
	add(f.UnansweredHalf, "unanswered writes that are there by half, or twice")
	add(f.Foreign, "keys that nobody wrote")
	// Every write is one revision, and a new cluster begins at 1.
	add(f.Revision-1-f.Keys, "revisions without a write of the load")
	return out
}

// startsMissing holds what the members say of their start against their files.
func (s *crash) startsMissing() []string {
	var out []string
	for i, st := range s.r.Starts {
		f := s.r.Files[i]
		if st.ConsistentIndex != f.ConsistentIndex {
			out = append(out, fmt.Sprintf("%s began at consistent index %d, its file had %d", st.Member, st.ConsistentIndex, f.ConsistentIndex))
		}
		// What it has in the end and did not have in its database it must have
		// applied since it started.
		if want := st.Revision - 1 - f.WritesInDB; st.Applied != want {
			out = append(out, fmt.Sprintf("%s has applied %d writes since its start, of %d that its database did not have", st.Member, st.Applied, want))
		}
		if st.FromLeader < 0 {
			out = append(out, fmt.Sprintf("%s had %d writes in its log that are there, and has applied only %d", st.Member, st.FromLog, st.Applied))
		}
	}
	return out
}
