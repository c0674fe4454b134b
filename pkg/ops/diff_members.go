package ops

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/keyspace"
)

const opDiff = "diff"

// maxAsked is of how many differing keys the other members are asked.
const maxAsked = 1000

// Jury is the members that are not compared, who tell which of two that differ is
// like most. It is used by one goroutine.
type Jury struct {
	names   [2]string // of the members that are compared
	others  []cluster.Member
	sources []keyspace.Source
	voters  int
	rev     int64

	asked int
	alone map[string]int // by member: in how many keys it is in the minority
	torn  int            // keys in which no value has a majority
}

// NewJury opens the voters beside a and b, to be read at one revision that all of
// them have, which ReadHeads tells. A member that does not answer is left out and
// counts as a vote that nobody got.
func NewJury(client *cluster.Client, view cluster.View, a, b cluster.Member, rev int64) (*Jury, error) {
	j := &Jury{names: [2]string{a.Label(), b.Label()}, voters: len(view.Voters()), rev: rev, alone: map[string]int{}}
	for _, m := range view.Readers() {
		if m.ID == a.ID || m.ID == b.ID {
			continue
		}
		mc, err := client.Member(m.ID)
		if err != nil {
			return nil, err
		}
		j.others = append(j.others, m)
		j.sources = append(j.sources, keyspace.OpenLive(mc, keyspace.LiveOptions{Timeout: client.Config().CommandTimeout, Op: opDiff}))
	}
	return j, nil
}

// Ask has the others say what they have of a key that differs, and sets
// Entry.Majority.
func (j *Jury) Ask(ctx context.Context, e *diff.Entry) error {
	if j.asked >= maxAsked || e.Kind == diff.Transient {
		return nil
	}
	j.asked++
	votes := []vote{{e.A, []string{j.names[0]}}, {e.B, []string{j.names[1]}}}
	for i, s := range j.sources {
		st, err := stateAt(ctx, s, e.Key, j.rev)
		if err != nil {
			return err
		}
		votes = cast(votes, st, j.others[i].Label())
	}
	j.count(e, votes)
	return nil
}

// vote is one state of a key, and the members that have it.
type vote struct {
	state *diff.State
	of    []string
}

// cast adds a member's vote to those of its like.
func cast(votes []vote, st *diff.State, member string) []vote {
	for i := range votes {
		if sameState(votes[i].state, st) {
			votes[i].of = append(votes[i].of, member)
			return votes
		}
	}
	return append(votes, vote{st, []string{member}})
}

// count sets the entry's majority, and notes who is not of it. The first two votes
// are those of the members that are compared.
func (j *Jury) count(e *diff.Entry, votes []vote) {
	winner := slices.IndexFunc(votes, func(v vote) bool { return 2*len(v.of) > j.voters })
	switch winner {
	case -1:
		e.Majority = "none"
		j.torn++
		return
	case 0:
		e.Majority = "a"
	case 1:
		e.Majority = "b"
	default:
		e.Majority = "neither"
	}
	for i, v := range votes {
		if i == winner {
			continue
		}
		for _, m := range v.of {
			j.alone[m]++
		}
	}
}

// stateAt reads one key; nil where the member has none.
func stateAt(ctx context.Context, s keyspace.Source, key []byte, rev int64) (st *diff.State, err error) {
	q := keyspace.Query{From: string(key), End: string(key) + "\x00", Rev: rev}
	err = s.Keys(ctx, q, func(i *keyspace.Item) error {
		st = &diff.State{CreateRevision: i.CreateRevision, ModRevision: i.ModRevision, Version: i.Version, Lease: i.Lease, Value: bytes.Clone(i.Value)}
		return nil
	})
	return st, err
}

func sameState(a, b *diff.State) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.CreateRevision == b.CreateRevision && a.ModRevision == b.ModRevision && a.Version == b.Version && a.Lease == b.Lease &&
		bytes.Equal(a.Value, b.Value)
}

// Verdict says who is in the minority, or that nobody can tell.
func (j *Jury) Verdict() string {
	if j.asked == 0 {
		return ""
	}
	of := fmt.Sprintf("%s that differ, and all %d voters were asked of", counted(j.asked, "key"), j.voters)
	if missing := j.voters - len(j.others) - 2; missing > 0 {
		of = fmt.Sprintf("%s that differ, of which %d of %d voters were asked", counted(j.asked, "key"), j.voters-missing, j.voters)
	}
	var names []string
	for name := range j.alone {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(j.alone[b], j.alone[a]), cmp.Compare(a, b)) })
	var said []string
	for _, name := range names {
		said = append(said, fmt.Sprintf("%s is in the minority in %d", name, j.alone[name]))
	}
	if j.torn > 0 {
		said = append(said, fmt.Sprintf("no value has a majority in %d: do not guess", j.torn))
	}
	return "of " + of + ": " + strings.Join(said, "; ")
}
