package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
)

// LeaseOptions says how closely to look at leases.
type LeaseOptions struct {
	TTL    bool        // ask for each lease's times: a request per lease, answered by the leader
	Keys   bool        // ask for the keys of each too; implies TTL
	Limit  int         // ask for no more leases than this, those that expire first; 0: all
	Rate   int         // requests per second at most
	Layout keys.Layout // under which prefixes Kubernetes stores its objects
}

// DefaultLeaseOptions returns what `kvd lease list` does when told nothing.
func DefaultLeaseOptions() LeaseOptions {
	return LeaseOptions{Limit: 1000, Rate: 200, Layout: keys.Default()}
}

// LeaseList is the leases of a cluster, as one member has them.
type LeaseList struct {
	At        time.Time       `json:"at"`
	ClusterID string          `json:"cluster_id"`
	Member    string          `json:"member"`              // who was asked
	LeaderID  string          `json:"leader_id,omitempty"` // empty: no leader, nothing expires and no time is known
	Total     int             `json:"leases_total"`
	Asked     int             `json:"leases_asked"` // how many were asked for their times
	Requests  int             `json:"requests"`
	Gone      int             `json:"leases_gone"`    // listed, and ended before they were asked for
	Expired   int             `json:"leases_expired"` // of those asked: past their time and not revoked yet
	Leases    []Lease         `json:"leases"`
	KeysTotal *int64          `json:"keys_total,omitempty"`     // of the whole key space
	KeysHeld  *int64          `json:"keys_on_leases,omitempty"` // of the leases that were asked
	Share     *float64        `json:"keys_share_ratio,omitempty"`
	Resources []LeaseResource `json:"resources,omitempty"` // by number of keys
}

// Lease is one lease. What was not asked for is nil.
type Lease struct {
	ID      string  `json:"id"`
	TTL     *int64  `json:"ttl_seconds,omitempty"`         // what is left; 0 or less: expired
	Granted *int64  `json:"granted_ttl_seconds,omitempty"` // what it was granted for
	Expired bool    `json:"expired_not_revoked"`
	Count   *int    `json:"keys_count,omitempty"`
	Keys    KeyList `json:"keys,omitempty"`    // only of a single lease
	Example KeyList `json:"example,omitempty"` // the first of its keys
}

// LeaseResource is how many keys of one Kubernetes resource, or with no known
// one, are on leases.
type LeaseResource struct {
	Resource string  `json:"resource"` // "events"; "other" for keys that are not Kubernetes'
	Keys     int64   `json:"keys"`
	Leases   int     `json:"leases"`
	Share    float64 `json:"share_ratio"` // of all keys on leases
}

// KeyList is keys in order.
type KeyList []string

// MarshalJSON writes each as {"key": …}, or {"key_base64": …} if it is not UTF-8.
func (l KeyList) MarshalJSON() ([]byte, error) {
	type text struct {
		Key string `json:"key"`
	}
	type raw struct {
		Key []byte `json:"key_base64"`
	}
	out := make([]any, 0, len(l))
	for _, k := range l {
		if utf8.ValidString(k) {
			out = append(out, text{k})
		} else {
			out = append(out, raw{[]byte(k)})
		}
	}
	return json.Marshal(out)
}

// ListLeases lists the leases: with one request, which gives their IDs and
// nothing else, or with one more for each lease.
//
// The leader is asked if there is one. It keeps the times (a follower has to
// forward each request to it), and it lists by what is left, the shortest first.
// Without a leader nothing expires and no request for a time is answered, so
// that none is sent; the list comes back beside an Unavailable error then.
func ListLeases(ctx context.Context, client *cluster.Client, view cluster.View, o LeaseOptions, sink progress.Sink) (LeaseList, error) {
	l := LeaseList{At: view.At, ClusterID: cluster.FormatID(view.ID), Leases: []Lease{}}
	mc, err := leaseMember(client, view)
	if err != nil {
		return l, err
	}
	l.Member = mc.Label()
	if view.Leader != 0 {
		l.LeaderID = cluster.FormatID(view.Leader)
	}
	if err := mc.Connect(ctx); err != nil {
		return l, err
	}
	all, err := listLeases(ctx, mc, client.Config().CommandTimeout)
	if err != nil {
		return l, err
	}
	l.Requests++ // counted once it was answered: how many there are is not known before
	l.Total = len(all)
	if times := o.TTL || o.Keys; !times || view.Leader == 0 {
		for _, s := range all {
			l.Leases = append(l.Leases, Lease{ID: cluster.FormatID(uint64(s.ID))})
		}
		slices.SortFunc(l.Leases, func(a, b Lease) int { return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID)) })
		if times {
			return l, errNoLeaderForTTL()
		}
		return l, nil
	}
	return l, l.askEach(ctx, mc, all, o, client.Config().CommandTimeout, sink)
}

func errNoLeaderForTTL() error {
	return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoLeader, Op: "read leases",
		Msg:  "no member knows a leader, and only the leader knows what is left of a lease; until there is one nothing expires",
		Hint: "see `kvd status`; `kvd lease list` without --ttl and --keys works without a leader"}
}

// leaseMember chooses whom to ask: the leader, or else any voter.
func leaseMember(client *cluster.Client, view cluster.View) (*cluster.MemberClient, error) {
	if m, ok := view.LeaderMember(); ok && m.Status != nil {
		return client.Member(m.ID)
	}
	for _, m := range view.Readers() {
		return client.Member(m.ID)
	}
	if err := view.VotersErr("read leases"); err != nil {
		return nil, err
	}
	return nil, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoEndpoint, Op: "read leases",
		Msg: "no voter answers, and a learner does not tell leases", Hint: "see `kvd status`"}
}

// askEach asks for the leases one after the other, at no more than the rate.
func (l *LeaseList) askEach(ctx context.Context, mc *cluster.MemberClient, all []clientv3.LeaseStatus, o LeaseOptions, timeout time.Duration, sink progress.Sink) error {
	if o.Limit > 0 && len(all) > o.Limit {
		all = all[:o.Limit]
	}
	tally := map[string]*LeaseResource{}
	var held int64
	asker := leaseAsker{mc: mc, op: "lease list", keys: o.Keys, rate: o.Rate, timeout: timeout, sink: sink}
	requests, gone, err := asker.each(ctx, all, l.Total, func(_ clientv3.LeaseID, one Lease) {
		l.Asked++
		if one.Expired {
			l.Expired++
		}
		if o.Keys {
			held += int64(len(one.Keys))
			tallyKeys(tally, one.Keys, o.Layout)
			one.Example, one.Keys = one.Keys[:min(1, len(one.Keys))], nil
		}
		l.Leases = append(l.Leases, one)
	})
	l.Requests, l.Gone = l.Requests+requests, gone
	if err != nil {
		return err
	}
	slices.SortStableFunc(l.Leases, func(a, b Lease) int { return cmp.Compare(*a.TTL, *b.TTL) })
	if !o.Keys {
		return nil
	}
	l.Resources = resourcesOf(tally, held)
	l.KeysHeld = &held
	r, err := mc.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
	l.Requests++
	if err != nil {
		return err
	}
	l.KeysTotal = &r.Count
	if r.Count > 0 {
		l.Share = new(float64(held) / float64(r.Count))
	}
	return nil
}

// ShowLease asks for one lease with its keys: one request, which the leader
// answers, and whose answer is as large as its keys are many.
func ShowLease(ctx context.Context, client *cluster.Client, view cluster.View, id uint64) (Lease, error) {
	if view.Leader == 0 {
		return Lease{}, errNoLeaderForTTL()
	}
	mc, err := leaseMember(client, view)
	if err != nil {
		return Lease{}, err
	}
	if err := mc.Connect(ctx); err != nil {
		return Lease{}, err
	}
	return timeToLive(ctx, mc, clientv3.LeaseID(id), true, client.Config().CommandTimeout)
}

// ParseLeaseID reads a lease's ID: hexadecimal, as etcd and etcdctl print it, or,
// where it can't be that, decimal, as etcd's JSON has it. alternative is the
// other reading of digits that could be both, 0 if there is none.
func ParseLeaseID(s string) (id, alternative uint64, err error) {
	decimal, derr := strconv.ParseInt(s, 10, 64)
	hex, herr := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	switch {
	case herr == nil && hex != 0:
		if derr == nil {
			alternative = uint64(decimal)
		}
		return hex, alternative, nil
	case derr == nil && decimal != 0:
		return uint64(decimal), 0, nil
	}
	return 0, 0, &fault.Error{Kind: fault.Usage, Cause: "lease_id", Op: "lease show", Msg: fmt.Sprintf("%q is not the ID of a lease", s),
		Hint: "IDs are hexadecimal, as `kvd lease list` and etcdctl print them; the decimal of etcd's JSON is understood too"}
}
