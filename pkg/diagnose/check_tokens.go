package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
)

// checkTokens looks at whether a login at one member is good at the others. Each signs and
// checks with the key of its own --auth-token, which nothing compares.
func checkTokens() Check {
	return Check{
		Name: "tokens", Asks: "does each member take the tokens of the others?", IDs: []string{"KVD-AUTH-002"}, Needs: []Need{NeedTokens},
		Look: func(in *Input) ([]Finding, string) {
			t := in.Tokens
			groups := tokenGroups(t)
			if len(groups) < 2 {
				return nil, fmt.Sprintf("%s of %d members, which all take", list(tokenKinds(t, nil)), len(t.Made))
			}
			var out []Finding
			usual := groups[0]
			for _, odd := range groups[1:] {
				out = append(out, otherTokens(in, usual, odd))
			}
			return out, ""
		},
	}
}

// otherTokens is for members whose tokens most others refuse, or that refuse theirs.
func otherTokens(in *Input, usual, odd []cluster.Member) Finding {
	t := in.Tokens
	f := Finding{ID: "KVD-AUTH-002", Severity: Critical, Subject: names(odd)}
	for _, m := range t.Made {
		if by := refusers(t, m.Member, slices.Concat(usual, odd)); len(by) > 0 {
			f.Evidence = append(f.Evidence, Evidence{What: fmt.Sprintf("a token of %s (%s)", name(m.Member), m.Kind), Text: "refused by " + names(by), Source: "a serializable read with it at each other member", At: in.At})
		}
	}
	theirs, its := refusedBy(t, usual, odd), refusedBy(t, odd, usual)
	mine, others := tokenKinds(t, odd), tokenKinds(t, usual)
	switch {
	case theirs != its && len(mine) > 0 && len(others) > 0: // whose keys are each other's, and whose clocks are not
		late, rest := odd, usual
		if theirs {
			late, rest = usual, odd
		}
		f.Subject = names(late)
		f.Summary = fmt.Sprintf("tokens of %s are refused by %s (\"invalid auth token\") as soon as they are made, and not the other way round: a clock is behind by more than tokens last, or their ttl is too short", names(late), names(rest))
		f.Remedy = []string{"date -u  # on the machine of each member: set the clock that is behind",
			"if the clocks are right, give " + names(late) + " the ttl of --auth-token that the others have, and restart it"}
		return f
	case !slices.Equal(mine, others) && len(mine) > 0 && len(others) > 0:
		f.Summary = fmt.Sprintf("tokens are refused between %s on one side and %s on the other (\"invalid auth token\"): %s and %s", names(odd), names(usual), list(mine), list(others))
		f.Remedy = []string{"give " + names(odd) + " the --auth-token of " + names(usual) + ", with the same files of keys", restartForKeys(odd)}
		return f
	}
	f.Summary = fmt.Sprintf("tokens are refused between %s on one side and %s on the other (\"invalid auth token\"): they are signed and checked with different keys", names(odd), names(usual))
	if !its {
		f.Summary = fmt.Sprintf("tokens of %[2]s are refused by %[1]s (\"invalid auth token\"): checked is with a different key", names(odd), names(usual))
	}
	f.Remedy = []string{fmt.Sprintf("copy the files that --auth-token of %s names (pub-key, priv-key) over those of %s, readable for etcd alone: all members are to have one pair", name(usual[0]), names(odd)),
		restartForKeys(odd)}
	if len(usual) == len(odd) {
		f.Remedy[0] += "; which of the two pairs is meant, whoever set up the cluster knows"
	}
	return f
}

func restartForKeys(odd []cluster.Member) string {
	if len(odd) > 1 {
		return "restart " + names(odd) + ", one after the other: etcd reads keys at its start only"
	}
	return "restart " + names(odd) + ": etcd reads keys at its start only"
}

// tokenGroups are the members that take each other's tokens, most members first.
func tokenGroups(t *cluster.TokenTrial) [][]cluster.Member {
	var groups [][]cluster.Member
	var all []cluster.Member
	add := func(m cluster.Member) {
		if !slices.ContainsFunc(all, func(o cluster.Member) bool { return o.ID == m.ID }) {
			all = append(all, m)
		}
	}
	for _, m := range t.Made {
		add(m.Member)
	}
	for _, u := range t.Used {
		add(u.Taker)
	}
	for _, m := range all {
		one := []cluster.Member{m}
		i := slices.IndexFunc(groups, func(g []cluster.Member) bool { return !refusedBy(t, g, one) && !refusedBy(t, one, g) })
		if i < 0 {
			groups = append(groups, one)
			continue
		}
		groups[i] = append(groups[i], m)
	}
	slices.SortStableFunc(groups, func(a, b []cluster.Member) int { return len(b) - len(a) })
	return groups
}

// refusedBy reports that a token of one of these makers is refused by one of the takers.
func refusedBy(t *cluster.TokenTrial, makers, takers []cluster.Member) bool {
	return slices.ContainsFunc(makers, func(m cluster.Member) bool { return len(refusers(t, m, takers)) > 0 })
}

// refusers are those of some members that refuse one's token.
func refusers(t *cluster.TokenTrial, maker cluster.Member, among []cluster.Member) []cluster.Member {
	return slices.DeleteFunc(slices.Clone(among), func(m cluster.Member) bool {
		return !slices.ContainsFunc(t.Used, func(u cluster.UsedToken) bool { return u.Refused && u.Maker.ID == maker.ID && u.Taker.ID == m.ID })
	})
}

// tokenKinds says what tokens some members make, or with nil all.
func tokenKinds(t *cluster.TokenTrial, of []cluster.Member) []string {
	var out []string
	for _, m := range t.Made {
		if m.Err != nil || of != nil && !slices.ContainsFunc(of, func(o cluster.Member) bool { return o.ID == m.Member.ID }) {
			continue
		}
		kind := "tokens signed by " + m.Kind
		if m.Kind == cluster.SimpleToken {
			kind = "simple tokens"
		}
		if !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
