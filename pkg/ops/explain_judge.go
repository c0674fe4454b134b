package ops

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// JudgeWrite walks the checks that etcd 3.7.3 makes of a put, in its order, with
// the numbers of one member: the one that a client would talk to. Every step is
// judged, also those behind the first that stops the write, since whoever removes
// the first meets the next.
func JudgeWrite(f WriteFacts, m WriteMember) WriteVerdict {
	v := WriteVerdict{Endpoint: m.Endpoint, Name: m.Name, Role: m.role()}
	if m.ID != 0 {
		v.ID = cluster.FormatID(m.ID)
	}
	if m.Source == "" {
		v.Verdict, v.Why = WriteUnreachable, "nothing is known of it"
		if m.Err != nil {
			v.Why = fault.Why(m.Err)
		}
		return v
	}
	w := writeWalk{f: f, m: m}
	w.client()
	w.api()
	w.server()
	w.apply()
	v.steps, v.Verdict = w.steps, WriteAccepted
	for _, s := range w.steps {
		switch {
		case s.State == StepStops:
			v.AtTheLatest = v.Verdict == WriteUnknown
			v.Verdict, v.StopsAt, v.Stage = WriteRefused, s.Check, s.Stage
			if !v.AtTheLatest {
				v.Error = s.Error
			}
			return v
		case s.State == StepUnknown && v.Verdict == WriteAccepted:
			v.Verdict, v.Why = WriteUnknown, s.Check+": "+s.Detail
		}
	}
	return v
}

func (m WriteMember) role() string {
	switch {
	case m.Role != "":
		return m.Role
	case m.Learner:
		return cluster.RoleLearner
	case m.Leads:
		return cluster.RoleLeader
	case m.HasLeader == nil || !*m.HasLeader:
		return cluster.RoleUnknown
	}
	return cluster.RoleFollower
}

// answers reports that the member is there: it told something, or refused to.
func (m WriteMember) answers() bool {
	return m.Source != "" || m.Err != nil && fault.KindOf(m.Err) == fault.Denied
}

func (m WriteMember) label() string {
	if m.ID == 0 {
		return m.Endpoint
	}
	return cluster.Member{ID: m.ID, Name: m.Name}.Label()
}

// writeWalk is one walk through the checks.
type writeWalk struct {
	f     WriteFacts
	m     WriteMember
	steps []WriteStep
}

func (w *writeWalk) add(stage, check, source string) *WriteStep {
	w.steps = append(w.steps, WriteStep{Stage: stage, Check: check, Source: source, State: StepPasses, Numbers: map[string]int64{}})
	return &w.steps[len(w.steps)-1]
}

func (s *WriteStep) passes(format string, args ...any) {
	s.State, s.Detail = StepPasses, fmt.Sprintf(format, args...)
}

func (s *WriteStep) unknown(format string, args ...any) {
	s.State, s.Detail = StepUnknown, fmt.Sprintf(format, args...)
}

// stops says what the client is told, in etcd's own words.
func (s *WriteStep) stops(told, format string, args ...any) {
	s.State, s.Error, s.Detail = StepStops, told, fmt.Sprintf(format, args...)
}

// maxRequest is the servers' --max-request-bytes, and how that is known.
func (w *writeWalk) maxRequest() (bytes int64, how string) {
	if n := w.f.Write.MaxRequest; n > 0 {
		return n, "as --max-request-bytes says"
	}
	return maxRequest, "etcd's default, assumed: no request tells the servers' own --max-request-bytes"
}

// client is what stops a put before a server's code sees it.
func (w *writeWalk) client() {
	n := w.f.Write.messageBytes()
	s := w.add("client", "send_limit", "client/v3/options.go defaultMaxCallSendMsgSize")
	sends, whose := clientSendLimit, "etcd's Go client, kube-apiserver's too, unless its MaxCallSendMsgSize is set; clients in other languages have no such limit"
	if w.f.Write.MaxSend > 0 {
		sends, whose = w.f.Write.MaxSend, "the client's MaxCallSendMsgSize"
	}
	s.Numbers["message_bytes"], s.Numbers["limit_bytes"] = n, sends
	if n > sends {
		s.stops(fmt.Sprintf("trying to send message larger than max (%d vs. %d)", n, sends), "%s, more than the %s that are sent at most (%s); nothing is sent", binary(n), binary(sends), whose)
	} else {
		s.passes("%s of %s (%s)", binary(n), binary(sends), whose)
	}
	limit, how := w.maxRequest()
	limit += transportOverhead
	s = w.add("transport", "receive_limit", "server/v3/etcdserver/api/v3rpc/grpc.go Server, config.go MaxRequestBytesWithOverhead")
	s.Numbers["message_bytes"], s.Numbers["limit_bytes"] = n, limit
	if n > limit {
		s.stops(fmt.Sprintf("grpc: received message larger than max (%d vs. %d)", n, limit),
			"the server's gRPC takes --max-request-bytes and 512 KiB (%s)", how)
	} else {
		s.passes("%s of %s: --max-request-bytes and 512 KiB (%s)", binary(n), binary(limit), how)
	}
}

// api is what the gRPC service of the member checks, before it knows or asks who
// is writing.
func (w *writeWalk) api() {
	s := w.add("api", "learner", "server/v3/etcdserver/api/v3rpc/interceptor.go newUnaryInterceptor")
	if w.m.Learner {
		s.stops("etcdserver: rpc not supported for learner", "%s is a learner, which serves its status and serializable reads only", w.m.label())
	} else {
		s.passes("%s is a voter", w.m.label())
	}
	s = w.add("api", "require_leader", "server/v3/etcdserver/api/v3rpc/interceptor.go newUnaryInterceptor")
	switch {
	case !w.f.Write.RequireLeader:
		s.passes("checked only where the client asks for it (clientv3.WithRequireLeader); this one does not")
	case w.m.HasLeader == nil:
		s.unknown("%s does not tell whether it knows a leader", w.m.label())
	case !*w.m.HasLeader:
		s.stops(rpctypes.ErrNoLeader.Error(), "%s knows no leader, and the client asks not to wait for one", w.m.label())
	default:
		s.passes("%s knows a leader", w.m.label())
	}
	w.quota(w.add("api", "quota", "server/v3/etcdserver/api/v3rpc/quota.go Put, storage/quota.go Available"))
	s = w.add("api", "request", "server/v3/etcdserver/api/v3rpc/key.go checkPutRequest")
	if w.f.Write.Key == "" {
		s.stops(rpctypes.ErrEmptyKey.Error(), "the key is empty")
	} else {
		s.passes("there is a key, of %s", counted(len(w.f.Write.Key), "byte"))
	}
}

// quota compares as etcd does: the member's own file and its own quota, whatever
// the other members have, and before anybody asks who is writing.
func (w *writeWalk) quota(s *WriteStep) {
	cost := w.f.Write.quotaCost()
	s.Numbers["cost_bytes"] = cost
	switch {
	case w.m.Quota == nil:
		s.unknown("%s does not tell its quota (etcd before 3.6 without metrics): give it with --quota", w.m.label())
	case *w.m.Quota == cluster.QuotaDisabled:
		s.passes("%s has its quota disabled", w.m.label())
	case w.m.DBSize == nil:
		s.unknown("%s does not tell the size of its file", w.m.label())
	default:
		s.Numbers["db_size_bytes"], s.Numbers["quota_bytes"] = *w.m.DBSize, *w.m.Quota
		sum := fmt.Sprintf("file %d + cost %d (256 + key %d + value %d) = %d bytes", *w.m.DBSize, cost, len(w.f.Write.Key), w.f.Write.Value, *w.m.DBSize+cost)
		if *w.m.DBSize+cost < *w.m.Quota {
			s.passes("%s < quota %d, %d to spare", sum, *w.m.Quota, *w.m.Quota-*w.m.DBSize-cost-1)
			return
		}
		s.stops(rpctypes.ErrNoSpace.Error(), "%s, not below the quota %d; the attempt raises NOSPACE for the whole cluster, whoever makes it", sum, *w.m.Quota)
	}
}
