package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kvd/pkg/ops/cluster"
)

// checkCorruptAlarm: the alarm is raised by etcd's own comparison of hashes
// (server/etcdserver/corrupt.go), and outlives restarts.
func checkCorruptAlarm() Check {
	return Check{
		Name: "corrupt alarm", Asks: "has etcd itself seen members differ?", IDs: []string{"KVD-CORRUPT-001"}, Needs: []Need{NeedView},
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			var out []Finding
			for _, a := range v.Alarms {
				if a.Type != cluster.AlarmCorrupt {
					continue
				}
				out = append(out, in.corruptAlarm(a))
			}
			return out, "no CORRUPT alarm"
		},
	}
}

// corruptAlarm tells of one alarm. What helps depends on what the members hold now, as
// far as that was compared, and on whether the accused is still one of them.
func (in *Input) corruptAlarm(a cluster.Alarm) Finding {
	who := a.MemberName
	if who == "" {
		who = cluster.FormatID(a.MemberID)
	}
	const majority = "kvd snapshot save FILE  # with --endpoints of a member of the majority alone"
	f := Finding{ID: "KVD-CORRUPT-001", Severity: Critical, Subject: who, ExplainedBy: []string{"KVD-CORRUPT-002"},
		Summary:  fmt.Sprintf("CORRUPT is raised for %s: every write, compaction and lease is refused; reads, watches and snapshots still work", who),
		Evidence: append([]Evidence{{What: "alarm", Text: "CORRUPT for " + who, Source: a.Source, At: in.view().At}}, in.probes()...),
		Remedy: []string{"kvd diagnose --hash  # compare the members, since etcd before 3.5 always blamed a follower",
			majority, "kvd member replace " + who, "kvd alarm disarm --type CORRUPT  # and only then"}}
	if !a.InMemberList {
		f.Summary += "; " + who + " is no member any more"
		f.Remedy = []string{"kvd diagnose --hash  # whether those that are left hold the same", "kvd alarm disarm --type CORRUPT  # and only then"}
	}
	if len(in.Hashes) < 2 || !sameBasis(in.Hashes) {
		return f
	}
	odd, differ := minority(in.Hashes)
	accused := slices.ContainsFunc(odd, func(m cluster.Member) bool { return m.ID == a.MemberID })
	compared := func(what, text string) {
		f.Evidence = append(f.Evidence, Evidence{What: what, Text: text, Source: "HashKV", At: in.At})
	}
	switch {
	case !differ:
		compared("by kvd's own comparison", "all that answered hold the same")
		f.Summary += fmt.Sprintf("; by kvd's own comparison %s hold the same now", counted(len(in.Hashes), "member"))
		f.Remedy = []string{"kvd snapshot save FILE", "kvd alarm disarm --type CORRUPT"}
		if n := len(in.view().Voters()); len(in.Hashes) < n {
			f.Remedy = slices.Insert(f.Remedy, 1, fmt.Sprintf("kvd diagnose --hash  # again once all %d answer: one that was not asked may differ", n))
		}
	case len(odd) == len(in.Hashes):
		compared("differ by kvd's own comparison", names(odd))
		f.Summary += fmt.Sprintf("; by kvd's own comparison there are %s different states and no majority, do not guess", word(distinct(in.Hashes)))
		f.Remedy = []string{"kvd snapshot save FILE  # of each member, with --endpoints of it alone", "decide which data is right, as KVD-CORRUPT-002 says, before any member is replaced",
			"kvd alarm disarm --type CORRUPT  # once all hold the same"}
	case accused:
		compared("differs by kvd's own comparison", names(odd))
		f.Remedy = f.Remedy[1:] // they were compared
	default:
		compared("differs by kvd's own comparison", names(odd))
		f.Summary += "; by kvd's own comparison it is " + names(odd) + " that differs"
		f.Remedy = []string{majority, "kvd member replace " + name(odd[0]), "kvd alarm disarm --type CORRUPT"}
	}
	return f
}

// checkRevisions compares members that have applied the same entries: they are at
// the same revision, or hold different data. A status is not taken at one instant
// (its revision is read before its index), so that one view shows nothing: the same
// difference has to be there in every view with equal indexes, and in three.
func checkRevisions() Check {
	return Check{
		Name: "revisions", Asks: "do equal logs lead to equal revisions?", IDs: []string{"KVD-CORRUPT-002"}, Needs: []Need{NeedTwo},
		Look: func(in *Input) ([]Finding, string) {
			pairs := revisionGaps(in.views())
			if len(pairs) == 0 {
				return nil, "none differs at an equal index"
			}
			v := in.view()
			odd := oddOnes(v, pairs)
			f := Finding{ID: "KVD-CORRUPT-002", Severity: Critical, Subject: names(odd),
				Remedy: []string{"kvd snapshot save FILE  # with --endpoints of a member of the majority alone", "kvd member replace " + name(odd[0])}}
			p := pairs[0]
			f.Summary = fmt.Sprintf("%s and %s have applied the same entries and hold different data: their revisions are %d apart, as after restores from different snapshots",
				name(p.a), name(p.b), p.gap)
			if p.a.Status.Version != p.b.Status.Version {
				f.Summary += fmt.Sprintf(", or of requests that %s and %s apply differently", p.a.Status.Version, p.b.Status.Version)
				f.ExplainedBy = append(f.ExplainedBy, "KVD-VERSION-001")
			}
			if len(odd) > 1 {
				f.Subject, f.Summary = names(odd), f.Summary+"; there is no majority, do not guess"
				f.Remedy = []string{"kvd diff member:" + name(odd[0]) + " member:" + name(odd[1]) + " --stat", "kvd member replace NAME  # for each other, once it is decided which data to keep"}
			}
			for _, m := range v.Answered() {
				f.Evidence = append(f.Evidence, status(m, "revision of "+name(m), float64(m.Status.Revision), Index), status(m, "applied index of "+name(m), float64(m.Status.AppliedIndex), Index))
			}
			return []Finding{f}, ""
		},
	}
}

// views lists all that were taken.
func (in *Input) views() []cluster.View {
	out := slices.Clone(in.Again)
	for _, m := range []*Moment{in.Before, in.Now} {
		if m != nil {
			out = append(out, m.View)
		}
	}
	return out
}

// pair is two members whose revisions are apart at equal indexes.
type pair struct {
	a, b cluster.Member
	gap  int64
}

// seenApart is in how many views a difference has to be, and no other.
const seenApart = 3

func revisionGaps(views []cluster.View) []pair {
	var out []pair
	members := views[len(views)-1].Answered()
	for i, a := range members {
		for _, b := range members[i+1:] {
			if gap, n := gapOf(views, a.ID, b.ID); n >= seenApart && gap != 0 {
				out = append(out, pair{a, b, max(gap, -gap)})
			}
		}
	}
	return out
}

// gapOf returns by how much two members' revisions differ wherever they had applied
// the same entries, and how often that was seen; 0 where it was not always the same.
func gapOf(views []cluster.View, a, b uint64) (gap int64, seen int) {
	for _, v := range views {
		x, okA := v.MemberByID(a)
		y, okB := v.MemberByID(b)
		if !okA || !okB || x.Status == nil || y.Status == nil || x.Status.AppliedIndex != y.Status.AppliedIndex {
			continue
		}
		d := x.Status.Revision - y.Status.Revision
		if seen > 0 && d != gap || d == 0 {
			return 0, seen
		}
		gap, seen = d, seen+1
	}
	return gap, seen
}

// LooksApart reports that the members of a view may hold different data, so that
// it is worth to look again.
func LooksApart(v cluster.View) bool {
	all := v.Answered()
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.Status.AppliedIndex == b.Status.AppliedIndex && a.Status.Revision != b.Status.Revision {
				return true
			}
		}
	}
	return false
}

// oddOnes are the members that differ from the most: one, or all where none has most.
func oddOnes(v cluster.View, pairs []pair) []cluster.Member {
	count := map[uint64]int{}
	for _, p := range pairs {
		count[p.a.ID]++
		count[p.b.ID]++
	}
	var all, most []cluster.Member
	for _, m := range v.Answered() {
		if count[m.ID] > 0 {
			all = append(all, m)
		}
		if n := len(v.Answered()); count[m.ID] > (n-1)/2 && n > 2 {
			most = append(most, m)
		}
	}
	if len(most) > 0 && len(most) <= len(v.Answered())/2 {
		return most
	}
	return all
}

// checkHashes compares digests that count the same revisions.
func checkHashes() Check {
	return Check{
		Name: "hashes", Asks: "do all members hold the same keys and values?", IDs: []string{"KVD-CORRUPT-002"}, Needs: []Need{NeedHashes},
		Look: func(in *Input) ([]Finding, string) {
			odd, ok := minority(in.Hashes)
			if !sameBasis(in.Hashes) {
				return nil, "a compaction passed by: hashes of different compactions do not compare; run it again"
			}
			if !ok {
				return nil, fmt.Sprintf("%s, all %08x at revision %d", counted(len(in.Hashes), "member"), in.Hashes[0].Hash, in.Hashes[0].Revision)
			}
			f := Finding{ID: "KVD-CORRUPT-002", Severity: Critical, Subject: names(odd),
				Summary: fmt.Sprintf("%s holds other data than the rest at revision %d", names(odd), in.Hashes[0].Revision),
				Remedy:  []string{"kvd snapshot save FILE  # with --endpoints of a member of the majority alone", "kvd member replace " + name(odd[0]) + "  # with an empty data dir: no restore"}}
			if len(odd) == len(in.Hashes) {
				f.Summary = fmt.Sprintf("%s different hashes at revision %d: there is no majority, do not guess", word(distinct(in.Hashes)), in.Hashes[0].Revision)
				f.Remedy = []string{"find out which data is right, from the keys that differ and from backups", "kvd member replace NAME  # for each other member then"}
			}
			for _, h := range in.Hashes {
				f.Evidence = append(f.Evidence, Evidence{What: "hash of " + name(h.Member), Text: fmt.Sprintf("%08x", h.Hash), Source: fmt.Sprintf("HashKV, compacted at %d", h.Compact), At: in.At})
			}
			for _, d := range in.Differing {
				f.Evidence = append(f.Evidence, Evidence{What: "key " + printable(d.Key), Text: d.What, Source: fmt.Sprintf("read from each at revision %d", in.Hashes[0].Revision), At: in.At})
			}
			return []Finding{f}, ""
		},
	}
}

// sameBasis reports that the hashes count the same revisions.
func sameBasis(all []Hash) bool {
	return !slices.ContainsFunc(all, func(h Hash) bool { return h.Compact != all[0].Compact || h.Revision != all[0].Revision })
}

// minority lists the members whose hash is not that of the most; all of them where
// none has most. It is false where all are equal, or compacted at other revisions,
// which makes other hashes of the same data.
func minority(all []Hash) ([]cluster.Member, bool) {
	if len(all) < 2 || !sameBasis(all) {
		return nil, false
	}
	count := map[uint32]int{}
	for _, h := range all {
		count[h.Hash]++
	}
	if len(count) == 1 {
		return nil, false
	}
	var odd []cluster.Member
	for _, h := range all {
		if count[h.Hash] <= len(all)/2 {
			odd = append(odd, h.Member)
		}
	}
	slices.SortFunc(odd, func(a, b cluster.Member) int { return cmp.Compare(name(a), name(b)) })
	return odd, true
}

func distinct(all []Hash) int {
	seen := map[uint32]bool{}
	for _, h := range all {
		seen[h.Hash] = true
	}
	return len(seen)
}

func word(n int) string {
	if words := []string{"no", "one", "two", "three", "four", "five"}; n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}

// printable is a key for a sentence, and for a command of kvd, which takes escapes of
// Go's apart again: all but that of a quotation mark.
func printable(key []byte) string {
	quoted := strconv.Quote(string(key))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
