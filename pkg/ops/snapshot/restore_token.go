package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/fault"
)

// tokenPrefix begins the tokens that are made from the content.
const tokenPrefix = "restored-"

// tokenBytes is how much of a digest is in such a token.
const tokenBytes = 6

// contentToken makes the token of what the recipe restores: of everything that
// makes members' data differ. The members are in it although their URLs make their
// IDs: with two names exchanged on one host there would be one member twice.
func (r *Recipe) contentToken() string {
	text := fmt.Appendf(nil, "%s %d %t", r.Snapshot.SHA256, r.BumpRevision, r.ClearAlarms)
	for _, m := range r.sortedMembers() {
		text = fmt.Appendf(text, " %s=%s", m.Name, strings.Join(m.PeerURLs, ","))
	}
	sum := sha256.Sum256(text)
	return tokenPrefix + hex.EncodeToString(sum[:tokenBytes])
}

// tokenIsMade says by its form whether a token was made by contentToken.
func (r *Recipe) tokenIsMade() bool {
	digest, ok := strings.CutPrefix(r.Token, tokenPrefix)
	raw, err := hex.DecodeString(digest)
	return ok && err == nil && len(raw) == tokenBytes
}

// settleToken makes the token where none is given, and refuses one that was made
// for something else: that is how hosts with plans that differ become members of
// one cluster with different data.
func (r *Recipe) settleToken() error {
	made := r.contentToken()
	if r.Token == "" {
		r.Token = made
	}
	if r.Token == made || !r.tokenIsMade() {
		return nil
	}
	return &fault.Error{Kind: fault.Refused, Cause: "another_token", Op: opRestore,
		Msg:  fmt.Sprintf("the token %s was made for another snapshot, bump_revision, clear_alarms or other members than these, which make %s: was the plan edited?", r.Token, made),
		Hint: "hosts that restore different things under one token become one cluster and never notice: write another plan with --write-plan, and use it on every host"}
}

// refuseOldCluster refuses what would be the old cluster again: a member of that,
// one that was forgotten and still runs, would be let in, with another log behind
// the same indexes.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, etcdserver/api/membership/member.go (computeMemberID), cluster.go (genID).
func (r *Restore) refuseOldCluster() error {
	cl, err := r.Recipe.cluster()
	if err != nil {
		return err
	}
	same := ""
	if m := r.source.manifest; m != nil && m.ClusterID == ID(cl.ID()) {
		same = fmt.Sprintf("the cluster would have the ID %s of the one that the snapshot is from", m.ClusterID)
	}
	for _, m := range cl.Members() {
		if slices.ContainsFunc(r.Verification.Content.Members, func(old Member) bool { return old.ID == ID(m.ID) }) {
			same = fmt.Sprintf("member %s would have the ID %s of a member of the cluster that the snapshot is from", m.Name, ID(m.ID))
		}
	}
	if same == "" {
		return nil
	}
	return &fault.Error{Kind: fault.Refused, Cause: "old_cluster", Op: opRestore,
		Msg:  fmt.Sprintf("with the token %q %s: members of that one and of this would take each other for their own, and mix what they hold", r.Recipe.Token, same),
		Hint: "leave out --initial-cluster-token: the token is made from the content then. A member that has data does not look at its own flag of that name"}
}

// tokenNotes say what goes with a token that somebody chose.
func (r *Restore) tokenNotes() []string {
	if r.Recipe.tokenIsMade() {
		return nil
	}
	return []string{fmt.Sprintf("the token %q was chosen, not made from the content: hosts that restore another file or with another --bump-revision become members of the same cluster, and nothing notices. Compare the sha256 on every host (this file: %s), or leave out --initial-cluster-token",
		r.Recipe.Token, r.Recipe.Snapshot.SHA256)}
}
