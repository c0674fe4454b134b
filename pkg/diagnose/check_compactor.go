package diagnose

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/kube/keys"
)

// checkCompactor looks at whether the API server compacts. Every 5 minutes each of them
// tries to write the key compact_rev_key, and the one that succeeds compacts
// (k8s.io/apiserver, storage/etcd3/compact.go). How old the marker is the renewals of
// Leases tell: what they say at its revision, and what they say now.
func checkCompactor() Check {
	return Check{
		Name: "API server compacts", Asks: "does kube-apiserver compact?", IDs: []string{"KVD-SPACE-009"}, Needs: []Need{NeedCompactor},
		Look: func(in *Input) ([]Finding, string) {
			c := in.Compactor
			stale := c.Age.Seconds() >= in.Limits.MarkerAge
			others := in.othersCompact()
			written := c.Head - c.ModRevision
			if !stale || others || written < 1 {
				return nil, c.measured(others)
			}
			f := Finding{ID: "KVD-SPACE-009", Severity: Warning, Subject: c.Key, ExplainedBy: []string{"KVD-AUTH-001", "KVD-SPACE-001"},
				Evidence: []Evidence{{What: "age of " + c.Key, Value: c.Age.Seconds(), Unit: Seconds, Source: c.Source, At: in.At}, {What: "written at revision", Value: float64(c.ModRevision), Unit: Index, Source: c.Source, At: in.At},
					{What: "head revision", Value: float64(c.Head), Unit: Index, Source: c.Source, At: in.At}, {What: "history reaches back", Value: c.Kept.Seconds(), Unit: Seconds, Source: c.Source, At: in.At}},
				Summary: fmt.Sprintf("no API server compacts: %s was last written %s ago, %s since; it is due every 5 minutes", c.Key, Seconds.Show(c.Age.Seconds()), counted(written, "revision")),
				Remedy:  []string{"kvd compact --dry-run  # what there is to compact meanwhile", "see kube-apiserver's log for \"compact\", and its --etcd-compaction-interval (0 turns it off)", "with user authentication: its user needs to read and write compact_rev_key"}}
			if c.ModRevision == 0 {
				f.Summary = fmt.Sprintf("no API server compacts: there is no %s, and objects of Kubernetes have been written for %s; it is due every 5 minutes", c.Key, Seconds.Show(c.Age.Seconds()))
			}
			return []Finding{f}, ""
		},
	}
}

// othersCompact reports that somebody does, whoever it is: history is young, and that not
// because the cluster is, as far as the keys were read.
func (in *Input) othersCompact() bool {
	c := in.Compactor
	return c != nil && c.Kept > 0 && c.Kept.Seconds() < in.Limits.MarkerAge && (in.Keys == nil || compactedAt(in.Keys.Oldest) > 0)
}

func (c *Compactor) measured(others bool) string {
	switch {
	case others && c.ModRevision == 0:
		return fmt.Sprintf("it does not, and somebody does: history reaches back %s", Seconds.Show(c.Kept.Seconds()))
	case c.ModRevision == 0:
		return fmt.Sprintf("no %s yet", c.Key)
	}
	return fmt.Sprintf("%s was written %s ago", c.Key, Seconds.Show(c.Age.Seconds()))
}

// checkMayCompact looks for a user that may write Kubernetes' objects, and not the key
// that goes with compacting, which is not below their prefix.
func checkMayCompact() Check {
	return Check{
		Name: "API server may compact", Asks: "may kube-apiserver's user write its marker?", IDs: []string{"KVD-AUTH-001"}, Needs: []Need{NeedAuth},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			roots := in.kubeRoots()
			for _, lacks := range []string{"may not write", "may not read"} {
				if users := in.lacking(lacks, roots); len(users) > 0 {
					out = append(out, in.mayNot(users, lacks))
				}
			}
			if len(roots) == 0 {
				return out, counted(len(in.Auth.Users), "user") + "; no objects of Kubernetes were seen that they would be for"
			}
			return out, counted(len(in.Auth.Users), "user")
		},
	}
}

// keeper is a user that may write all objects of a cluster of Kubernetes.
type keeper struct {
	AuthUser
	root string // below which these are: the first of several
}

// lacking are those who may write below one of the roots, and whose right on the marker
// is that one.
func (in *Input) lacking(lacks string, roots []string) []keeper {
	var out []keeper
	for _, u := range in.Auth.Users {
		i := slices.IndexFunc(roots, func(root string) bool { return permits(u.Write, root, keyspaceEnd(root)) })
		reads, writes := permits(u.Read, keys.CompactRevKey, ""), permits(u.Write, keys.CompactRevKey, "")
		is := map[bool]string{true: "may not write", false: "may not read"}[!writes]
		if i >= 0 && is == lacks && !(reads && writes) && !slices.Contains(u.Roles, rootRole) {
			out = append(out, keeper{u, roots[i]})
		}
	}
	return out
}

// mayNot is one finding for all of them: an etcd for many clusters has a user for each.
func (in *Input) mayNot(users []keeper, lacks string) Finding {
	u := users[0]
	f := Finding{ID: "KVD-AUTH-001", Severity: Warning, Subject: "user " + printable([]byte(u.Name)),
		Summary: fmt.Sprintf("the user %s may write all of %s and %s %s: an API server that is this user never compacts, and says so in its log only", printable([]byte(u.Name)), printable([]byte(u.root)), lacks, keys.CompactRevKey),
		Evidence: []Evidence{{What: "roles", Text: strings.Join(u.Roles, ", "), Source: in.Auth.Source, At: in.At}, {What: keys.CompactRevKey, Text: lacks, Source: in.Auth.Source, At: in.At},
			{What: "users are asked for", Text: fmt.Sprint(in.Auth.Enabled), Source: in.Auth.Source, At: in.At}},
		Remedy: []string{"etcdctl role grant-permission ROLE readwrite " + keys.CompactRevKey, "kvd diagnose  # ten minutes later KVD-SPACE-009 has gone"}}
	if n := len(users); n > 1 {
		f.Subject = counted(n, "user")
		f.Summary = fmt.Sprintf("%s may each write all objects of a cluster of Kubernetes, as %s may those below %s, and %s %s: an API server that is such a user never compacts, and says so in its log only",
			counted(n, "user"), printable([]byte(u.Name)), printable([]byte(u.root)), lacks, keys.CompactRevKey)
		var names []string
		for _, other := range users[:min(n, 10)] {
			names = append(names, printable([]byte(other.Name)))
		}
		f.Evidence[0] = Evidence{What: "users", Text: strings.Join(names, ", ") + map[bool]string{true: ", ..."}[n > 10], Source: in.Auth.Source, At: in.At}
	}
	switch {
	case !in.Auth.Enabled:
		f.Severity, f.Summary = Info, f.Summary+"; it will be so as soon as authentication is turned on"
	case in.othersCompact():
		f.Severity, f.Summary = Info, f.Summary+"; somebody else compacts, as etcd itself with --auto-compaction-retention: history reaches back "+Seconds.Show(in.Compactor.Kept.Seconds())
	}
	return f
}

// kubeRoots are the prefixes that Kubernetes' objects were seen below, each with a slash at
// its end.
func (in *Input) kubeRoots() []string {
	var out []string
	if in.Keys == nil {
		return nil
	}
	layout := in.layout()
	for _, g := range in.Keys.Groups {
		if g.Resource == "" {
			continue
		}
		if k, _, ok := layout.Split(string(g.Prefix) + "x"); ok && !slices.Contains(out, k.Prefix+"/") {
			out = append(out, k.Prefix+"/")
		}
	}
	slices.Sort(out)
	return out
}

// layout is where Kubernetes' objects are: as told, and as found where keys were read.
func (in *Input) layout() keys.Layout {
	if in.Keys == nil || len(in.Keys.Layout.Prefixes) == 0 {
		return keys.Default()
	}
	return in.Keys.Layout
}

// keyspaceEnd is the end of the range of all keys with a prefix that ends in a slash.
func keyspaceEnd(prefix string) string { return prefix[:len(prefix)-1] + "0" }

// permits reports that one of the ranges has all of a key, or of a range where end is
// not empty.
func permits(all []KeyRange, key, end string) bool {
	return slices.ContainsFunc(all, func(r KeyRange) bool {
		open := len(r.End) == 1 && r.End[0] == 0
		switch {
		case len(r.End) == 0:
			return end == "" && string(r.Key) == key
		case bytes.Compare(r.Key, []byte(key)) > 0:
			return false
		case end == "":
			return open || bytes.Compare([]byte(key), r.End) < 0
		}
		return open || bytes.Compare([]byte(end), r.End) <= 0
	})
}
