package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/progress"
)

// MemberHash is the hash of one member's keys.
type MemberHash struct {
	Member          string `json:"member"`
	Revision        int64  `json:"revision"`
	CompactRevision int64  `json:"compact_revision"`
	Hash            uint32 `json:"hash"`
}

// HashMembers has every member hash its keys up to a revision, one after the other:
// each stalls all of its requests meanwhile, which is told before.
func HashMembers(ctx context.Context, client *cluster.Client, view cluster.View, rev int64, sink progress.Sink) ([]MemberHash, error) {
	var out []MemberHash
	for _, m := range view.Readers() {
		mc, err := client.Member(m.ID)
		if err != nil {
			return out, err
		}
		sink.Event(progress.Event{Op: opDiff, Subject: m.Label(), Warning: true, Note: fmt.Sprintf(
			"HashKV begins: %s answers nothing else while it reads the %s it has in use", m.Label(), binary(m.Status.DBInUse))})
		r, err := mc.HashKV(ctx, rev)
		if err != nil {
			return out, err
		}
		out = append(out, MemberHash{m.Label(), rev, r.CompactRevision, r.Hash})
	}
	return out, nil
}

// JudgeHashes says which members have the same content, and who is in the minority.
// Neither same nor differ is true where the hashes can't be compared.
func JudgeHashes(hashes []MemberHash, voters int) (verdict string, same, differ bool) {
	members, compacted := map[uint32][]string{}, map[int64]bool{}
	for _, h := range hashes {
		compacted[h.CompactRevision] = true
		members[h.Hash] = append(members[h.Hash], h.Member)
	}
	switch {
	case len(compacted) > 1:
		return "the hashes can't be compared: a compaction came between them", false, false
	case len(members) == 1:
		return fmt.Sprintf("all %s have the same hash, %08x", counted(len(hashes), "member"), hashes[0].Hash), true, false
	}
	var said []string
	majority := false
	for hash, of := range members {
		text := fmt.Sprintf("%s: %08x", strings.Join(of, ", "), hash)
		if 2*len(of) > voters {
			text, majority = text+" (the majority)", true
		}
		said = append(said, text)
	}
	slices.Sort(said)
	if !majority {
		said = append(said, "no majority: do not guess")
	}
	return strings.Join(said, "; "), false, true
}
