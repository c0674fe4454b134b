package loadgen

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/metrics"
)

// guard refuses a cluster that a load could hurt somebody on. It sends one range
// of a single key for each prefix that Kubernetes is known to use, and for its marker.
func guard(ctx context.Context, client *cluster.Client, v cluster.View, o Options) error {
	var at []string
	for _, m := range v.Members {
		at = append(at, m.Endpoint)
	}
	if err := checkTarget(at, o.TargetIsMine); err != nil {
		return err
	}
	if err := checkQuorum(v); err != nil {
		return err
	}
	if err := checkMetricsURLs(v, o.MetricsURLs); err != nil {
		return err
	}
	if err := checkRoom(v, o); err != nil {
		return err
	}
	if v.Leader == 0 {
		return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoLeader, Op: "loadgen", Msg: "no member knows a leader: the quorum is lost, or an election is under way",
			Hint: "see `kvd status`"}
	}
	q, err := client.Quorum(ctx)
	if err != nil {
		return err
	}
	return checkForeign(ctx, q, o.BesideKubernetes)
}

func refused(cause, msg, hint string) error {
	return &fault.Error{Kind: fault.Refused, Cause: cause, Op: "loadgen", Msg: msg, Hint: hint}
}

// checkTarget refuses endpoints on another machine. An empty one, of a member that
// has not been started, is none.
func checkTarget(endpoints []string, mine bool) error {
	for _, ep := range endpoints {
		if ep != "" && !mine && !onThisMachine(ep) {
			return refused("not_loopback", ep+" is not on this machine, and a load can make a cluster unavailable",
				"give --target-is-mine if nobody else depends on that cluster")
		}
	}
	return nil
}

func onThisMachine(endpoint string) bool {
	if strings.HasPrefix(endpoint, "unix:") || strings.HasPrefix(endpoint, "unixs:") {
		return true
	}
	host := endpoint
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		host = u.Host
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// checkMetricsURLs refuses addresses of members that there are not: misspelt, they would
// leave a report without what that member did.
func checkMetricsURLs(v cluster.View, urls metrics.Overrides) error {
	var known []string
	for _, m := range v.Members {
		known = append(known, m.Name, cluster.FormatID(m.ID))
	}
	if bad := urls.Unknown(known); len(bad) > 0 {
		return &fault.Error{Kind: fault.Usage, Cause: cluster.CauseMemberNotFound, Op: "loadgen", Msg: "--metrics-url names no member: " + strings.Join(bad, ", "), Hint: "`kvd member list` has the names"}
	}
	return nil
}

// checkQuorum refuses a cluster that has lost its quorum: whatever is asked of it would
// be waited for in vain.
func checkQuorum(v cluster.View) error {
	if !v.VotersKnown() || v.Commits {
		return nil // then what follows tells why; or there is one, which is not reached from here
	}
	var silent []string
	for _, m := range v.Voters() {
		if m.Status == nil {
			silent = append(silent, fmt.Sprintf("%s (%s)", m.Label(), fault.Why(m.Err)))
		}
	}
	voters := len(v.Voters())
	if answer := voters - len(silent); answer < v.Quorum() {
		return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoQuorum, Op: "loadgen",
			Msg:  fmt.Sprintf("there is no quorum: it takes %d of %d voters, and %d answer; silent: %s", v.Quorum(), voters, answer, strings.Join(silent, ", ")),
			Hint: "bring members back until a majority is up, see `kvd status`"}
	}
	return nil
}

// checkRoom refuses a cluster that is full, or so full that the run would end at
// once.
func checkRoom(v cluster.View, o Options) error {
	if v.HasAlarm("NOSPACE") {
		return refused(cluster.CauseNoSpace, "the NOSPACE alarm is raised: every write would be refused", "run `kvd alarm recover --dry-run` to see the way out")
	}
	for _, m := range v.Answered() {
		if used, ok := m.Status.UsageRatio(); ok && o.StopAtUsage > 0 && used >= o.StopAtUsage {
			return refused("quota_guard", fmt.Sprintf("the file of %s is at %.0f %% of its quota already, and the load stops at %.0f %%", m.Label(), 100*used, 100*o.StopAtUsage),
				"`kvd loadgen clean` removes what an earlier load left; `kvd defrag` gives its space back")
		}
	}
	return nil
}

// roomIn is how many bytes the fullest member takes until the load would stop, and
// whether there is such a bound. Free pages of the file are room too.
func roomIn(v cluster.View, o Options) (room int64, bounded bool) {
	if o.StopAtUsage <= 0 {
		return 0, false
	}
	for _, m := range v.Answered() {
		q := m.Status.EffectiveQuota()
		if q <= 0 {
			continue
		}
		if left := int64(o.StopAtUsage*float64(q)) - m.Status.DBInUse; !bounded || left < room {
			room, bounded = left, true
		}
	}
	return room, bounded
}

const causeKubernetes = "kubernetes_found"

// checkForeign refuses a cluster in which Kubernetes' objects are.
func checkForeign(ctx context.Context, q *cluster.QuorumClient, allowed bool) error {
	if allowed {
		return nil
	}
	asked := map[string][]clientv3.OpOption{keys.CompactRevKey: nil} // which API servers with another --etcd-prefix leave, too
	for _, p := range keys.Default().Prefixes {
		asked[p+"/"] = []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(1)}
	}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		resp, err := q.Get(ctx, key, append(asked[key], clientv3.WithKeysOnly())...)
		if err != nil {
			return err
		}
		if len(resp.Kvs) > 0 {
			return refused(causeKubernetes, fmt.Sprintf("Kubernetes' objects are in this cluster (%s): its API servers would suffer", strings.TrimSuffix(key, "/")),
				"load a throwaway cluster; --beside-kubernetes does it all the same, under a prefix of its own")
		}
	}
	return nil
}
