package keyspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/kube/keys"
)

const (
	// maxRoots bounds how many prefixes are asked for, whatever is stored.
	maxRoots = 512
	// rootsAtOnce is how many one request asks for, by two keys each: etcd's
	// --max-txn-ops is 128 unless set.
	rootsAtOnce = 32
)

// foundRoots are --etcd-prefixes that nobody has told: of groups that are none of
// Kubernetes', those which have one of the namespaces that every cluster has. An etcd
// for many clusters, as Kamaji's, has one for each. It costs a request for 32 groups
// that may be one, which are counted in u, and none where all keys are Kubernetes' already.
// timeout is for one answer.
func foundRoots(ctx context.Context, m *cluster.MemberClient, u *Usage, known keys.Layout, timeout time.Duration) []string {
	suspects := suspectRoots(u.Groups, known)
	var out []string
	for some := range slices.Chunk(suspects, rootsAtOnce) {
		var gets []clientv3.Op
		for _, root := range some {
			for _, ns := range keys.EveryNamespace() {
				gets = append(gets, clientv3.OpGet(root+"/namespaces/"+ns, clientv3.WithCountOnly(), clientv3.WithSerializable()))
			}
		}
		rctx, cancel := context.WithTimeout(ctx, timeout)
		r, err := m.Etcd().Txn(rctx).Then(gets...).Commit()
		cancel()
		u.Requests++
		if err != nil {
			return out // a learner takes none, and some servers fewer: what is not found can be told
		}
		each := len(keys.EveryNamespace())
		for i, one := range r.Responses {
			if root := some[i/each]; one.GetResponseRange().GetCount() > 0 && !slices.Contains(out, root) {
				out = append(out, root)
			}
		}
	}
	return out
}

// suspectRoots are the prefixes of one segment or two that groups begin with which are
// no resource's.
func suspectRoots(groups []Group, known keys.Layout) []string {
	var out []string
	for _, g := range groups {
		if g.Resource != "" || !strings.HasPrefix(string(g.Prefix), "/") {
			continue
		}
		for i, c := range g.Prefix {
			root := string(g.Prefix[:i])
			if c != '/' || i == 0 || len(out) >= maxRoots || slices.Contains(known.Prefixes, root) || slices.Contains(out, root) {
				continue
			}
			out = append(out, root)
		}
	}
	return out
}

// words names some of the roots.
func words(roots []string) string {
	const some = 3
	if len(roots) <= some {
		return strings.Join(roots, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(roots[:some], ", "), len(roots)-some)
}
