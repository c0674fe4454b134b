package ops

import (
	"slices"
	"strconv"
	"strings"

	"kvd/pkg/ops/cluster"
)

// release is a version of etcd: major, minor, patch.
type release [3]int

// since lists the releases in which something came, one per minor version that
// got it, the oldest first: etcd brings fixes to its older branches as well.
type since []release

// has reports whether a server of that version has it. One whose version can't
// be read counts as new.
func (s since) has(version string) bool {
	n, ok := parseVersion(version)
	if !ok {
		return true
	}
	for _, r := range s {
		if n[0] == r[0] && n[1] == r[1] {
			return n[2] >= r[2]
		}
	}
	return slices.Compare(n[:], s[len(s)-1][:]) > 0
}

// without returns the members that answered and do not have it.
func (s since) without(v cluster.View) []cluster.Member {
	return slices.DeleteFunc(v.Answered(), func(m cluster.Member) bool { return s.has(m.Status.Version) })
}

// nestedPutsCount: puts in a Txn inside a Txn cost something (etcd issue 22134;
// costTxnReq in etcdserver's quota.go).
func nestedPutsCount() since { return since{{3, 5, 33}, {3, 6, 14}, {3, 7, 1}} }

// probesByPurpose: /livez and /readyz are there (etcdserver/api/etcdhttp/health.go).
func probesByPurpose() since { return since{{3, 4, 29}, {3, 5, 11}, {3, 6, 0}} }

// commitsOnRequest: a commit of the backend always has something to commit, the
// consistent index, so that free pages can be counted anew at any time. Before,
// it takes a write (server/storage/backend, hooks).
func commitsOnRequest() since { return since{{3, 5, 0}} }

// learnersStay: a learner that gets other peer URLs stays one in the member list (etcd issue
// 21694; UpdateRaftAttributes in server/etcdserver/api/membership/cluster.go).
func learnersStay() since { return since{{3, 5, 31}, {3, 6, 12}, {3, 7, 0}} }

// parseVersion reads "3.7.3" or "3.7.0-rc.1"; of the latter only the numbers
// matter here.
func parseVersion(s string) (n release, ok bool) {
	s, _, _ = strings.Cut(s, "-")
	s, _, _ = strings.Cut(s, "+")
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return n, false
	}
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil {
			return n, false
		}
		n[i] = v
	}
	return n, true
}
