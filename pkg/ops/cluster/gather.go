package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
)

// statusOf reads a status response.
func statusOf(r *clientv3.StatusResponse) Status {
	s := Status{
		Version: r.Version, StorageVersion: r.StorageVersion, DBSize: r.DbSize, DBInUse: r.DbSizeInUse,
		// Servers since 3.6 put 2 GiB where the flag is 0, so 0 means "does not tell".
		Quota: r.DbSizeQuota, QuotaKnown: r.DbSizeQuota != 0,
		RaftTerm: r.RaftTerm, RaftIndex: r.RaftIndex, AppliedIndex: r.RaftAppliedIndex,
		Leader: r.Leader, Learner: r.IsLearner,
	}
	if r.Header != nil {
		s.Revision = r.Header.Revision
	}
	if d := r.DowngradeInfo; d.GetEnabled() {
		s.DowngradeTarget = d.GetTargetVersion()
	}
	for _, line := range r.Errors {
		if a, ok := parseAlarm(line); ok {
			s.Alarms = append(s.Alarms, a)
		} else {
			s.Errors = append(s.Errors, line)
		}
	}
	return s
}

// answer is what one endpoint had to say.
type answer struct {
	endpoint string
	at       time.Time
	header   header
	status   *Status
	members  []Member // as this endpoint has them; nil if it did not say
	other    header   // who of another cluster answered the second request, if so
	err      error
}

// View takes a picture of the whole cluster: every given endpoint is asked for
// its status and its member list, and every member that none of them turned out
// to be is asked at the URLs it advertises, all in parallel. For each address that is
// DialTimeout at most, and MemberTimeout for each of its requests: a login if there is a
// user, the status (twice where a connection was lost), the list. A given endpoint that may lead
// to more than one member is looked behind by a few connections more, see seeShared. Only the login needs the
// quorum; where too few voters answer and a leader is named, a read asks whether there is one. A member that can't be reached is in the view with its error. View itself
// fails only if no endpoint at all answered, with one error per endpoint; Unreached has them too.
func (c *Client) View(ctx context.Context) (View, error) {
	v := View{At: time.Now(), Source: c.cfg.Source}
	given := c.askAll(ctx, c.cfg.Endpoints)
	v.Members, v.Notes = mergeLists(given)
	if len(v.Members) == 0 {
		v.Unreached = unreached(given, nil)
		return v, allFailed(given)
	}
	v.ListErr = listError(given)
	v.ID = clusterID(given)
	var wg sync.WaitGroup
	met := make([]*Stranger, len(v.Members))
	for i := range v.Members {
		m := &v.Members[i]
		if a := answerOf(given, m.ID, v.ID); a != nil {
			m.Endpoint, m.At, m.Status = a.endpoint, a.at, a.status
			continue
		}
		wg.Go(func() { met[i] = c.askMember(ctx, m, v.ID, given) })
	}
	wg.Wait()
	v.Leader = leaderOf(v.Members)
	v.Alarms = mergeAlarms(v)
	v.Unreached = unreached(given, v.Members)
	v.Strangers = strangers(given, v.ID, met)
	v.Endpoints = endpointsOf(given, v.ID)
	c.seeShared(ctx, &v, given)
	c.seeQuorum(ctx, &v)
	c.mu.Lock()
	c.last = v
	c.mu.Unlock()
	return v, nil
}

// answerOf is a member's answer. Its ID alone is not enough: it is made of peer URLs and
// the cluster's token (computeMemberID in server/etcdserver/api/membership/member.go), so
// that one which was restored alone has it again, in a cluster of its own.
func answerOf(answers []answer, id, clusterID uint64) *answer {
	for i := range answers {
		if answers[i].status != nil && answers[i].header == (header{clusterID, id}) {
			return &answers[i]
		}
	}
	return nil
}

// unreached lists the given endpoints that failed and are not known to be one
// of the members, whose own errors are with them.
func unreached(given []answer, members []Member) []EndpointError {
	var out []EndpointError
	for _, a := range given {
		known := slices.ContainsFunc(members, func(m Member) bool { return m.Err != nil && sameAddress(m.Endpoint, a.endpoint) })
		if a.status == nil && !known {
			out = append(out, EndpointError{Endpoint: a.endpoint, Err: a.err})
		}
	}
	return out
}

func (c *Client) askAll(ctx context.Context, endpoints []string) []answer {
	out := make([]answer, len(endpoints))
	var wg sync.WaitGroup
	for i, ep := range endpoints {
		wg.Go(func() { out[i] = c.askEndpoint(ctx, ep) })
	}
	wg.Wait()
	return out
}

func (c *Client) askEndpoint(ctx context.Context, endpoint string) (a answer) {
	a.endpoint = endpoint
	defer func() { a.at = time.Now() }()
	mc, err := c.At(endpoint)
	if err != nil {
		a.err = err
		return a
	}
	s, h, err := mc.status(ctx)
	if err != nil {
		a.err = err
		return a
	}
	a.status, a.header = &s, h
	list, err := mc.MemberList(ctx)
	if err != nil {
		// A learner does not serve its list, and a user may lack the right. The
		// status is worth having all the same.
		a.err = err
		return a
	}
	if slices.ContainsFunc(list.Members, func(m *pb.Member) bool { return m.GetID() == 0 }) {
		// Whose status that was is chance, and the next request may go to another.
		return answer{endpoint: endpoint, err: errNoMember(endpoint, list.Members)}
	}
	if other := list.Header.GetClusterId(); other != h.cluster { // on one connection, as with a proxy that shares out requests
		a.other, a.err = header{other, list.Header.GetMemberId()}, errSeveral(endpoint, h.cluster, other)
		return a
	}
	a.members = membersOf(list.Members)
	return a
}

// errNoMember is for an endpoint whose members have no ID. etcd's grpc-proxy lists itself in
// their place (MemberList in server/v3/proxy/grpcproxy/cluster.go), under its host's name;
// kine, which k3s has between its API server and a database that is no etcd, lists one of
// its own name (MemberList in its pkg/server/cluster.go, v0.13).
func errNoMember(endpoint string, members []*pb.Member) error {
	if len(members) == 1 && members[0].GetName() == "kine" {
		return &fault.Error{Kind: fault.Unavailable, Cause: CauseNotEtcd, Op: "status", Subject: endpoint,
			Msg:  "kine answers there, and no etcd: it keeps Kubernetes' objects in a database like SQLite, PostgreSQL or MySQL, and knows etcd's requests for keys alone",
			Hint: "look after that database with its own tools: the one of k3s's --datastore-endpoint, without which it is SQLite in /var/lib/rancher/k3s/server/db/state.db"}
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseGRPCProxy, Op: "status", Subject: endpoint,
		Msg:  "an etcd grpc-proxy answers there, which tells of itself instead of the members and asks any of them",
		Hint: "give the members' own endpoints: those that the proxy has with its --endpoints"}
}

// askMember asks a member at each of the URLs it advertises until one answers.
// What a given endpoint already found out about the same address is not asked
// again. It returns the member of another cluster that it met there, if it did.
func (c *Client) askMember(ctx context.Context, m *Member, clusterID uint64, given []answer) (met *Stranger) {
	defer func() { m.At = time.Now() }()
	if len(m.ClientURLs) == 0 {
		m.Err = errNotStarted(*m)
		return nil
	}
	for _, url := range m.ClientURLs {
		known := slices.IndexFunc(given, func(a answer) bool { return a.status == nil && sameAddress(a.endpoint, url) })
		var err error
		if known >= 0 {
			err = given[known].err
		} else if other, askErr := c.askAt(ctx, m, clusterID, url); askErr == nil {
			m.Err = nil
			return nil
		} else {
			met, err = cmp.Or(met, other), ofAdvertised(askErr)
		}
		if m.Err == nil {
			m.Endpoint, m.Err = url, err
		}
	}
	if fault.CauseOf(m.Err) == CauseNoAnswer && c.peerAlive(ctx, m.PeerURLs) {
		m.Err = &fault.Error{Kind: fault.Unavailable, Cause: CauseStarting, Op: "status", Subject: m.Endpoint,
			Msg:  "etcd is up and does not serve clients yet: its peer port answers, the client port does not",
			Hint: "it waits for a quorum of its peers, or replays its log; see the member's own log"}
	}
	return met
}

func (c *Client) askAt(ctx context.Context, m *Member, clusterID uint64, url string) (*Stranger, error) {
	mc, err := c.memberAt(Member{ID: m.ID, Name: m.Name, Endpoint: url})
	if err != nil {
		return nil, err
	}
	s, h, err := mc.status(ctx)
	if err != nil {
		return nil, err
	}
	if h.cluster != clusterID {
		return &Stranger{Endpoint: url, ClusterID: h.cluster, MemberID: h.member, Revision: s.Revision}, &fault.Error{Kind: fault.Unavailable, Cause: CauseOtherCluster, Op: "status", Subject: url,
			Msg:  fmt.Sprintf("a member of another cluster answers there: %s of %s instead of %s of %s", FormatID(h.member), FormatID(h.cluster), m.Label(), FormatID(clusterID)),
			Hint: "a restored snapshot begins a cluster of its own: to bring the member back, stop what runs there, and replace it with an empty data dir; or the address is wrong"}
	}
	if h.member != m.ID {
		return nil, &fault.Error{Kind: fault.Unavailable, Cause: CauseOtherMember, Op: "status", Subject: url,
			Msg:  fmt.Sprintf("another member answers there: %s instead of %s", FormatID(h.member), m.Label()),
			Hint: "the member's --advertise-client-urls is not reachable from here; give an endpoint that leads to it"}
	}
	m.Endpoint, m.Status = url, &s
	return nil, nil
}

// sameAddress compares endpoints without their scheme.
func sameAddress(a, b string) bool {
	bare := func(s string) string {
		if _, rest, ok := strings.Cut(s, "://"); ok {
			s = rest
		}
		return strings.TrimSuffix(s, "/")
	}
	return bare(a) == bare(b)
}

func errNotStarted(m Member) error {
	e := &fault.Error{Kind: fault.Unavailable, Cause: CauseNotStarted, Subject: m.Label(),
		Msg:  "was added to the cluster and has never started; it counts for the quorum nevertheless",
		Hint: "start it, or remove it, which takes a quorum: `kvd member list` says how; its peer URLs are " + strings.Join(m.PeerURLs, ",")}
	if m.Learner {
		e.Msg = "was added to the cluster as a learner and has never started; it does not count for the quorum"
	}
	return e
}

func allFailed(answers []answer) error {
	errs := make([]error, 0, len(answers))
	for _, a := range answers {
		errs = append(errs, a.err)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
