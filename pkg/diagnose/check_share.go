package diagnose

import (
	"fmt"

	"kvd/pkg/ops/keyspace"
)

// checkShare names the resource, the prefix or the namespace that most of the live data is in, where live
// data is what fills the file: then neither compaction nor defragmentation helps.
func checkShare() Check {
	return Check{
		Name: "what is stored", Asks: "does one resource fill the file?", IDs: []string{"KVD-SPACE-007"}, Needs: []Need{NeedView, NeedKeys},
		Look: func(in *Input) ([]Finding, string) {
			c, ok := in.content()
			if !ok || len(in.Keys.Groups) == 0 {
				return nil, "nothing is stored"
			}
			g := in.Keys.Groups[0]
			good := fmt.Sprintf("the most is in %s: %s, %s of the live bytes", groupName(g), counted(g.Keys, "key"), percent(g.Share))
			used, ok := c.m.Status.UsageRatio()
			if ok && used >= in.Limits.ShareUsage && g.Share < in.Limits.ShareRatio && float64(c.live) >= in.Limits.ShareRatio*float64(c.size) {
				return in.oneSpace(c), good
			}
			if !ok || used < in.Limits.ShareUsage || g.Share < in.Limits.ShareRatio || float64(c.live) < in.Limits.ShareRatio*float64(c.size) {
				return nil, good
			}
			f := Finding{ID: "KVD-SPACE-007", Severity: Warning, Subject: groupName(g),
				Summary: fmt.Sprintf("%s of the live bytes are in %s: %s, %s; compaction and defragmentation give nothing back of that",
					percent(g.Share), groupName(g), counted(g.Keys, "key"), size(int64(g.Bytes.Bytes))),
				Evidence: append(c.evidence(in), Evidence{What: groupName(g), Value: g.Bytes.Bytes, Unit: Bytes, Source: "sample of " + name(c.m), At: in.At}),
				Remedy:   []string{"kvd keys usage" + under(string(g.Prefix)), "kvd keys delete" + underSome(string(g.Prefix)) + " --older-than 720h --dry-run  # deletes work while NOSPACE is raised", "or start the members with a larger --quota-backend-bytes; etcd suggests 8 GiB at most"}}
			if len(in.Keys.Spaces) > 0 && in.Keys.Spaces[0].Namespace != "" {
				s := in.Keys.Spaces[0]
				f.Evidence = append(f.Evidence, Evidence{What: "namespace " + string(s.Namespace), Value: s.Share, Unit: Ratio, Source: "sample of " + name(c.m), At: in.At})
			}
			return []Finding{f}, ""
		},
	}
}

// oneSpace names the namespace that most of the live data is in, where it is of many
// resources, none of which has the most by itself.
func (in *Input) oneSpace(c content) []Finding {
	if len(in.Keys.Spaces) == 0 || in.Keys.Spaces[0].Namespace == "" || in.Keys.Spaces[0].Share < in.Limits.ShareRatio {
		return nil
	}
	s := in.Keys.Spaces[0]
	return []Finding{{ID: "KVD-SPACE-007", Severity: Warning, Subject: "namespace " + string(s.Namespace),
		Summary: fmt.Sprintf("%s of the live bytes are in the namespace %s: %s, %s, of more than one resource; compaction and defragmentation give nothing back of that",
			percent(s.Share), s.Namespace, counted(s.Keys, "key"), size(s.Bytes)),
		Evidence: append(c.evidence(in), Evidence{What: "namespace " + string(s.Namespace), Value: float64(s.Bytes), Unit: Bytes, Source: "sample of " + name(c.m), At: in.At}),
		Remedy:   []string{"kvd keys usage --by namespace", "have its owner delete what is not needed; a ResourceQuota bounds how many objects there may be"}}}
}

func groupName(g keyspace.Group) string {
	if g.Resource != "" {
		return g.Resource
	}
	if g.Prefix == "" {
		return "keys without a common prefix"
	}
	return printable([]byte(g.Prefix))
}

// underSome is under, for a command that must not mean all keys.
func underSome(prefix string) string {
	if prefix == "" {
		return " --prefix PREFIX"
	}
	return under(prefix)
}

// under is the flag of kvd keys for a prefix, none where all keys are meant.
func under(prefix string) string {
	if prefix == "" {
		return ""
	}
	return " --prefix " + ShellWord(printable([]byte(prefix)))
}
