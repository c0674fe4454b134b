package ops

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/wait"
)

// arrival is the question whether a member is where its peer URLs say: whether it
// answers its clients, and whether another member reaches it by them. A stream that
// stands (etcd_network_active_peers) does not tell: the member itself has opened it.
// So the probes do that each member sends to the others' URLs every 4 s; when URLs
// change, what they took is counted anew from 0 (addPeerToProber in
// server/v3/etcdserver/api/rafthttp). Where they have not changed, it grows by what the
// last answer took, however long ago that was (monitorProbingStatus there): the same URLs
// are then told once more, which has the others count anew, too. And a probe takes the
// answer of any etcd, which elsewhere is for.
type arrival struct {
	c    *membership
	id   uint64
	name string // with which it is spoken of
	urls []string
	told bool               // the cluster was told the URLs in this run
	took map[uint64]float64 // seconds, by who probed, when it had first heard of the URLs
}

// wait returns who reaches the member. An error is that nobody did within the time.
func (a *arrival) wait(ctx context.Context, timeout time.Duration) (string, error) {
	ctx, cancel := plan.Waiting(ctx)
	defer cancel()
	a.took = map[uint64]float64{}
	for limit := time.Now().Add(timeout); ; {
		view, err := a.c.View(ctx)
		m, there := byID(view.Members, a.id)
		by, lacks := "", ""
		switch {
		case err != nil:
			lacks = fault.Why(err)
		case !there:
			return "", &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseMemberNotFound, Op: a.c.op, Subject: a.name, Msg: "is not in the member list any more: somebody has removed it"}
		default:
			by, lacks = a.reachedBy(ctx, view, m)
		}
		if lacks == "" && by != "" {
			return by, nil
		}
		if timeout > 0 && time.Now().After(limit) {
			return "", &fault.Error{Kind: fault.Unavailable, Cause: "not_reached", Op: a.c.op, Subject: a.name, Msg: fmt.Sprintf("is not where its peer URLs say after %s: %s", timeout, lacks),
				Hint: "see its log and those of the others: an address it does not listen at (--listen-peer-urls), a certificate that does not name it, a firewall. Mend that and run this again; " +
					"if the URL was wrong, run it with the right one"}
		}
		a.c.tell(a.name, "waiting until it is reached there", lacks)
		if err := wait.For(ctx, memberPoll); err != nil {
			return "", err
		}
	}
}

// reachedBy returns what proves that the member is there, or what is lacking.
func (a *arrival) reachedBy(ctx context.Context, view cluster.View, m cluster.Member) (by, lacks string) {
	if m.Status == nil {
		lacks = "it does not answer"
		if m.Err != nil {
			lacks += ": " + fault.Why(m.Err)
		}
		return "", lacks
	}
	at := strings.Join(a.urls, ",")
	witness, ok := voterBut(view, a.id)
	if !ok {
		return "answers its clients; no other voter does, that could tell whether it reaches it", ""
	}
	mc, err := a.c.client.Member(witness.ID)
	if err != nil {
		return "", fault.Why(err)
	}
	list, err := mc.OwnMembers(ctx)
	if err != nil {
		return "", witness.Label() + ": " + fault.Why(err)
	}
	if known, ok := byID(list, a.id); !ok || !sameURLs(known.PeerURLs, a.urls) {
		return "", witness.Label() + " has not heard of its new URLs"
	}
	if !a.told {
		if _, err := mc.UpdateMember(ctx, a.id, a.urls); err != nil {
			return "", witness.Label() + ": " + fault.Why(err)
		}
		a.told = true
	}
	s, err := a.c.Metrics(ctx, witness)
	if err != nil {
		return fmt.Sprintf("answers its clients; whether %s reaches it at %s is not told: %s", witness.Label(), at, fault.Why(err)), ""
	}
	h, _ := s.Histogram(metrics.PeerRoundTrips, metrics.Labels{"To": cluster.FormatID(a.id)})
	first, asked := a.took[witness.ID]
	if !asked {
		a.took[witness.ID] = h.Sum
	}
	if asked && h.Sum > first {
		if lacks = elsewhere(ctx, a.c.client, view, a.id, a.urls); lacks != "" {
			return "", lacks
		}
		return fmt.Sprintf("answers its clients, and %s reaches it at %s", witness.Label(), at), ""
	}
	return "", fmt.Sprintf("%s has not reached an etcd at %s yet", witness.Label(), at)
}
