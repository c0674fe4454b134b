package ops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
)

// WriteOptions says which write to explain, and for whom.
type WriteOptions struct {
	WriteRequest
	Member      string   // name, ID or endpoint; empty: every voter is judged
	AsUser      string   // explain for this user; empty: for whoever the client is
	Token       string   // explain for whoever has this token, which AsUser names
	Quota       int64    // bytes, for members that do not tell theirs; 0: not known
	MetricsURLs []string // NAME=URL, for members that serve /metrics elsewhere than their client URL
}

// ExplainWrite finds out what would become of a put, and writes nothing.
//
// What is sent: a status and a /metrics to each member; two serializable reads
// of the key, by count only, one without any identity, which tells whether
// authentication is on, and one as the writer. Users and roles can be read by a
// proposal only (etcd has no other way), so they are asked for last, and only
// where nothing before them stops the write.
func ExplainWrite(ctx context.Context, client *cluster.Client, o WriteOptions) (WriteReport, error) {
	c := &writeCollector{client: client, o: o, http: client.HTTPClient()}
	defer c.http.CloseIdleConnections()
	r := WriteReport{At: time.Now(), Source: client.Config().Source, Key: o.Key, Value: o.Value,
		Cost: o.quotaCost(), Message: o.messageBytes(), Notes: []string{}, Steps: []WriteStep{}, Members: []WriteVerdict{}}
	if err := o.check(); err != nil {
		return r, err
	}
	if err := c.look(ctx); err != nil {
		return r, err
	}
	if c.view.ID != 0 {
		r.ClusterID = cluster.FormatID(c.view.ID)
	}
	if err := c.view.OneCluster(""); err != nil {
		r.Notes = append(r.Notes, fault.Why(err)+": judged is "+r.ClusterID+", and a write may go to another")
	}
	if err := c.choose(); err != nil {
		return r, err
	}
	if err := c.identify(ctx); err != nil {
		return r, err
	}
	if o.Lease != 0 {
		c.lease(c.asKvd(ctx))
	}
	c.rights(c.asKvd(ctx))
	c.conclude(&r)
	return r, nil
}

// writeCollector gathers WriteFacts.
type writeCollector struct {
	client *cluster.Client
	o      WriteOptions
	http   *http.Client
	view   cluster.View
	f      WriteFacts
	judged []int // which of f.Members the write would go to
	sent   []SentRequest
}

func (c *writeCollector) count(what string, n int, raft bool) {
	if n > 0 {
		c.sent = append(c.sent, SentRequest{What: what, Count: n, Raft: raft})
	}
}

// asKvd is ctx for what kvd itself wants to know: with the writer's token where
// that is all there is.
func (c *writeCollector) asKvd(ctx context.Context) context.Context {
	good := func(i int) bool { return c.f.Members[i].Credential == credentialGood }
	if cfg := c.client.Config(); c.o.Token == "" || cfg.User != "" || cfg.Cert != "" || !slices.ContainsFunc(c.judged, good) {
		return ctx
	}
	return withToken(ctx, c.o.Token)
}

func withToken(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}

// loginRefused is the error where a password was not accepted: then there is
// nothing more to find out, and the writer's own client would get no further.
func (c *writeCollector) loginRefused() error {
	if c.client.Config().User == "" {
		return nil
	}
	e := refusedFor(c.view, cluster.CauseAuthFailed)
	if e == nil {
		return nil
	}
	e = e.On("explain write", e.Subject)
	if c.o.AsUser == "" && c.o.Token == "" {
		e.Msg = fmt.Sprintf("%s; the writer's client is told %q when it logs in, and sends no write", e.Msg, rpctypes.ErrAuthFailed.Error())
	}
	return e
}

// refusedFor is the error with this cause of one of the endpoints, where none of
// them told anything; nil if there is none.
func refusedFor(v cluster.View, cause string) *fault.Error {
	for _, u := range v.Unreached {
		var e *fault.Error
		if len(v.Members) == 0 && errors.As(u.Err, &e) && e.Cause == cause {
			return e
		}
	}
	return nil
}

// look asks for status and metrics. Since 3.7 a member tells its status only to
// somebody it knows; its metrics it tells to everybody.
func (c *writeCollector) look(ctx context.Context) error {
	urls, err := metrics.ParseOverrides(c.o.MetricsURLs)
	if err != nil {
		return err
	}
	c.f.Now, c.f.Write = time.Now(), c.o.WriteRequest
	if c.client.Config().User != "" {
		c.count("Authenticate (kvd's own login)", 1, true)
	}
	rounds := 1
	c.view, err = c.client.View(ctx)
	if refusedFor(c.view, cluster.CauseAuthRequired) != nil && c.o.Token != "" { // the token may be good for more than writing
		rounds++
		if v, terr := c.client.View(withToken(ctx, c.o.Token)); terr == nil {
			c.view, err = v, nil
		}
	}
	viewErr := err
	if refused := c.loginRefused(); refused != nil {
		return refused
	}
	if err != nil { // nobody told us anything, for want of a user or of the quorum that logging in takes; the metrics may
		for _, u := range c.view.Unreached {
			c.f.Members = append(c.f.Members, WriteMember{Endpoint: u.Endpoint, Err: u.Err})
		}
	}
	if c.o.Quota != 0 {
		c.view = c.view.AssumeQuota(c.o.Quota)
	}
	for _, m := range c.view.Members {
		c.f.Members = append(c.f.Members, c.memberOf(m))
	}
	c.f.Alarms, c.f.AlarmsKnown = c.view.Alarms, len(c.view.Answered()) > 0
	if c.view.VotersKnown() {
		b := balanceOf(c.view)
		c.f.Voters, c.f.Alive = b.voters, b.alive
	}
	if err := checkOverrides("explain write", urls, c.view); err != nil && len(c.view.Members) > 0 {
		return err
	}
	c.count("Status, and list of members", rounds*len(c.f.Members), false)
	// What a member that is down costs here is no more than its status cost.
	fetching, cancel := context.WithTimeout(ctx, c.client.Config().DialTimeout+c.client.Config().MemberTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i := range c.f.Members {
		m := &c.f.Members[i]
		if m.Endpoint == "" {
			continue
		}
		wg.Go(func() {
			if s, err := metrics.FetchOf(fetching, c.http, urls.For(m.Name, cluster.FormatID(m.ID), m.Endpoint), m.ID); err == nil {
				m.readMetrics(s)
			}
		})
	}
	wg.Wait()
	c.count("GET /metrics", len(c.f.Members), false)
	if viewErr != nil && !slices.ContainsFunc(c.f.Members, func(m WriteMember) bool { return m.Source != "" }) {
		return viewErr
	}
	return ctx.Err()
}

func (c *writeCollector) memberOf(m cluster.Member) WriteMember {
	out := WriteMember{ID: m.ID, Name: m.Name, Endpoint: m.Endpoint, Learner: m.Learner, Role: c.view.Role(m), Leads: m.ID == c.view.Leader, Err: m.Err}
	s := m.Status
	if s == nil {
		return out
	}
	out.Source, out.Version, out.Leader = "status", s.Version, s.Leader
	out.DBSize, out.Committed, out.Applied, out.HasLeader = &s.DBSize, &s.RaftIndex, &s.AppliedIndex, new(s.Leader != 0)
	if q := s.EffectiveQuota(); q != cluster.QuotaUnknown {
		out.Quota = &q
	}
	return out
}

// readMetrics fills in what the status did not tell. Of a member that has told
// its status only the revision of users and roles comes from here: the counters
// of applied entries move once per batch, the status is exact.
func (m *WriteMember) readMetrics(s *metrics.Sample) {
	if v, ok := s.Value("etcd_debugging_auth_revision", nil); ok {
		m.AuthRevision = new(uint64(v))
	}
	m.Defrags = s.Defragmenting()
	if v, ok := s.Value(metrics.QuotaBytes, nil); ok && m.Quota == nil {
		m.Quota = new(int64(v))
		if v < 0 {
			m.Quota = new(cluster.QuotaDisabled)
		}
	}
	if m.Source != "" {
		return
	}
	size, ok := s.Value(metrics.DBSize, nil)
	if !ok {
		return
	}
	m.Source, m.DBSize = "metrics", new(int64(size))
	if v, ok := s.Value("etcd_server_proposals_committed_total", nil); ok {
		m.Committed = new(uint64(v))
	}
	if v, ok := s.Value("etcd_server_proposals_applied_total", nil); ok {
		m.Applied = new(uint64(v))
	}
	if v, ok := s.Value("etcd_server_has_leader", nil); ok {
		m.HasLeader = new(v > 0)
	}
	if v, ok := s.Value(metrics.IsLeader, nil); ok {
		m.Leads = v > 0
	}
	if v, ok := s.Value("etcd_server_is_learner", nil); ok && v > 0 {
		m.Learner = true
	}
	for id := range s.ByLabel("etcd_server_id", "server_id") {
		if n, err := strconv.ParseUint(id, 16, 64); err == nil && m.ID == 0 {
			m.ID = n
		}
	}
}

// choose says at which members to judge: the one asked for, or every voter;
// learners where there is no voter among those that a client has been given.
func (c *writeCollector) choose() error {
	judge := func(which func(WriteMember) bool) {
		for i, m := range c.f.Members {
			if which(m) {
				c.judged = append(c.judged, i)
			}
		}
	}
	switch {
	case c.o.Member != "" && c.f.Voters > 0:
		want, err := c.view.FindMember(c.o.Member)
		if err != nil {
			return err
		}
		judge(func(m WriteMember) bool { return m.ID == want.ID })
	case c.o.Member != "":
		judge(func(m WriteMember) bool { return m.Endpoint == c.o.Member || cluster.FormatID(m.ID) == c.o.Member })
		if len(c.judged) == 0 {
			return &fault.Error{Kind: fault.Usage, Cause: cluster.CauseMemberNotFound, Op: "explain write", Subject: c.o.Member,
				Msg:  "the members' names can't be read: they are told to users only, and not by a learner",
				Hint: "give the member's endpoint or ID, or the endpoint of a voter and a user"}
		}
	default:
		judge(func(m WriteMember) bool { return !m.Learner })
		if len(c.judged) == 0 {
			judge(func(WriteMember) bool { return true })
		}
	}
	return nil
}

// lease asks whether the lease exists, and for its keys where it matters who may
// write them.
func (c *writeCollector) lease(ctx context.Context) {
	on := c.f.Who.AuthOn
	withKeys := on == nil || *on
	mc, err := leaseMember(c.client, c.view)
	if err == nil && c.view.Leader == 0 {
		err = errNoLeaderForTTL()
	}
	if err != nil {
		c.f.LeaseWhy = err.Error()
		return
	}
	c.count("LeaseTimeToLive", 1, false)
	timeout := c.client.Config().CommandTimeout
	one, err := timeToLive(ctx, mc, clientv3.LeaseID(c.o.Lease), withKeys, timeout)
	if withKeys && fault.KindOf(err) == fault.Denied {
		c.f.LeaseWhy = err.Error()
		one, err = timeToLive(ctx, mc, clientv3.LeaseID(c.o.Lease), false, timeout)
	}
	switch {
	case fault.CauseOf(err) == cluster.CauseLeaseNotFound:
		c.f.LeaseExists, c.f.LeaseKeys = new(false), []string{}
	case err != nil:
		c.f.LeaseWhy = err.Error()
	default:
		c.f.LeaseExists = new(true)
		if one.Count != nil {
			c.f.LeaseKeys = append([]string{}, one.Keys...)
		}
	}
}
