package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"kvd/pkg/ops/fault"
)

func TestParseAlarm(t *testing.T) {
	const id = 10501334649042878790
	for line, want := range map[string]Alarm{
		"memberID:10501334649042878790 alarm:NOSPACE ":   {MemberID: id, Type: AlarmNoSpace}, // gogo: 3.4 to 3.6
		"memberID:10501334649042878790 alarm:CORRUPT ":   {MemberID: id, Type: AlarmCorrupt},
		"memberID:10501334649042878790  alarm:NOSPACE":   {MemberID: id, Type: AlarmNoSpace}, // Google: 3.7, two spaces
		"memberID:10501334649042878790 alarm:NOSPACE":    {MemberID: id, Type: AlarmNoSpace},
		"memberID: 10501334649042878790  alarm: CORRUPT": {MemberID: id, Type: AlarmCorrupt},
		"alarm:NOSPACE ":               {Type: AlarmNoSpace}, // a zero field is left out
		"memberID:1 alarm:2":           {MemberID: 1, Type: AlarmCorrupt},
		"memberID:1 alarm:FUTURE_KIND": {MemberID: 1, Type: "FUTURE_KIND"},
		"memberID:1 ":                  {},
		"memberID:1 alarm:NONE":        {},
		"etcdserver: no leader":        {},
		"":                             {},
		"memberID:99999999999999999999999 alarm:NOSPACE": {}, // no uint64
	} {
		got, ok := parseAlarm(line)
		if got != want || ok != (want != Alarm{}) {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
	// What this build's own generator writes, spaces at its discretion.
	for name, num := range pb.AlarmType_value {
		a := &pb.AlarmMember{MemberID: id, Alarm: pb.AlarmType(num)}
		got, ok := parseAlarm(a.String())
		if num == 0 {
			if ok {
				t.Errorf("%q is no alarm: %+v", a.String(), got)
			}
		} else if !ok || got.Type != name || got.MemberID != id {
			t.Errorf("%q: %+v", a.String(), got)
		}
	}
}

func FuzzParseAlarm(f *testing.F) {
	f.Add("memberID:10501334649042878790  alarm:NOSPACE")
	f.Add("etcdserver: no leader")
	f.Fuzz(func(t *testing.T, line string) {
		a, ok := parseAlarm(line)
		if ok && (a.Type == "" || a.Type == "NONE") {
			t.Errorf("%q gives %+v", line, a)
		}
	})
}

// gRPC's limit tells the server's own, which no request asks for.
func TestClassifyTellsMaxRequestBytes(t *testing.T) {
	for msg, want := range map[string]string{
		"grpc: received message larger than max (1049016 vs. 544288)": "store a smaller value: the server runs with --max-request-bytes=20000",
		"grpc: received message larger than max (5242880 vs. 4096)":   "store a smaller value", // not etcd's own
		"grpc: received message larger than max":                      "store a smaller value",
	} {
		if got := Classify("put", "m1", status.Error(codes.ResourceExhausted, msg)).Hint; got != want {
			t.Errorf("%s: %q, want %q", msg, got, want)
		}
	}
}

func TestClassify(t *testing.T) {
	timeout := rpctypes.ErrGRPCTimeout
	for _, c := range []struct {
		err   error
		cause string
		kind  fault.Kind
	}{
		{rpctypes.ErrGRPCNoSpace, CauseNoSpace, fault.Refused},
		{rpctypes.Error(rpctypes.ErrGRPCNoSpace), CauseNoSpace, fault.Refused},
		{rpctypes.ErrGRPCCorrupt, CauseCorrupt, fault.Damage},
		{timeout, CauseRequestTimedOut, fault.Unavailable},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, CauseRequestTimedOut, fault.Unavailable},
		{rpctypes.ErrGRPCTimeoutDueToConnectionLost, CauseRequestTimedOut, fault.Unavailable},
		{rpctypes.ErrGRPCNoLeader, CauseNoLeader, fault.Unavailable},
		{rpctypes.ErrGRPCRequestTooManyRequests, CauseTooManyRequests, fault.Unavailable},
		{rpctypes.ErrGRPCRequestTooLarge, CauseRequestTooLarge, fault.Refused},
		{rpctypes.ErrGRPCUserEmpty, CauseAuthRequired, fault.Denied},
		{rpctypes.ErrGRPCPermissionDenied, CausePermissionDenied, fault.Denied},
		{rpctypes.ErrGRPCInvalidAuthToken, CauseAuthFailed, fault.Denied},
		{rpctypes.ErrGRPCNotSupportedForLearner, CauseLearner, fault.Refused},
		{rpctypes.ErrGRPCUnhealthy, CauseUnhealthy, fault.Refused},
		{rpctypes.ErrGRPCPeerURLExist, CausePeerURLExists, fault.Refused},
		{rpctypes.ErrGRPCMemberNotEnoughStarted, CauseNotEnoughStarted, fault.Refused},
		{rpctypes.ErrGRPCTooManyLearners, CauseTooManyLearners, fault.Refused},
		{rpctypes.ErrGRPCLearnerNotReady, CauseLearnerNotReady, fault.Refused},
		{rpctypes.ErrGRPCMemberNotLearner, CauseNotALearner, fault.Refused},
		{rpctypes.ErrGRPCMemberBadURLs, CauseRejected, fault.Refused},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (2300038 vs. 2097152)"), CauseClientMsgTooLarge, fault.Refused},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5242880 vs. 4194304)"), CauseRequestTooLarge, fault.Refused},
		{status.Error(codes.Unimplemented, "unknown method RangeStream for service etcdserverpb.KV"), CauseUnsupported, fault.Refused},
		{status.Error(codes.Unimplemented, "unknown service etcdserverpb.Maintenance"), CauseNotEtcd, fault.Unavailable},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), CauseConnectionLost, fault.Unavailable},
		{status.Error(codes.Unknown, "database is locked"), CauseRejected, fault.Unavailable}, // kine, whose store is busy
		{status.Error(codes.Unknown, "write /var/lib/etcd/member/snap/db.tmp.1: no space left on device"), CauseRejected, fault.Unavailable},
		{status.Error(codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"), CauseRejected, fault.Unavailable},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), CauseDeadline, fault.Unavailable},
		{context.DeadlineExceeded, CauseDeadline, fault.Unavailable},
		{context.Canceled, CauseCanceled, fault.Interrupted},
		{fmt.Errorf("wrapped: %w", context.Canceled), CauseCanceled, fault.Interrupted},
		{errors.New("never seen"), CauseUnknown, fault.Internal},
	} {
		e := Classify("op", "ep", c.err)
		if e.Cause != c.cause || e.Kind != c.kind {
			t.Errorf("%v: %s / %s, want %s / %s", c.err, e.Cause, e.Kind, c.cause, c.kind)
		}
		if e.Op != "op" || e.Subject != "ep" {
			t.Errorf("%v: whose? %+v", c.err, e)
		}
	}
	own := &fault.Error{Kind: fault.Refused, Cause: "x"}
	if got := Classify("op", "ep", fmt.Errorf("around: %w", own)); got != own {
		t.Errorf("a fault was changed: %+v", got)
	}
}

// picture makes a view: each voter is leader, follower, dead, denied or unstarted.
func picture(states ...string) View {
	var v View
	for i, s := range states {
		m := Member{ID: uint64(i + 1), Name: fmt.Sprintf("m%d", i+1), ClientURLs: []string{"http://x"}}
		switch s {
		case "dead":
			m.Err = &fault.Error{Kind: fault.Unavailable, Cause: CauseConnectionRefused}
		case "denied":
			m.Err = &fault.Error{Kind: fault.Denied, Cause: CausePermissionDenied}
		case "unstarted":
			m.Name, m.ClientURLs, m.Err = "", nil, &fault.Error{Kind: fault.Unavailable, Cause: CauseNotStarted}
		default:
			m.Status, m.Learner = &Status{}, s == "learner"
		}
		if s == "leader" {
			v.Leader = m.ID
		}
		v.Members = append(v.Members, m)
	}
	return v
}

// Of who does not answer nobody says that it follows.
func TestRoles(t *testing.T) {
	for _, c := range []struct{ states, want []string }{
		{[]string{"leader", "follower", "dead", "denied", "learner", "unstarted"}, []string{RoleLeader, RoleFollower, RoleVoter, RoleVoter, RoleLearner, RoleUnstarted}},
		{[]string{"follower", "dead"}, []string{RoleUnknown, RoleUnknown}},
	} {
		v := picture(c.states...)
		for i, m := range v.Members {
			if got := v.Role(m); got != c.want[i] {
				t.Errorf("%v: %s is called %s, want %s", c.states, c.states[i], got, c.want[i])
			}
		}
	}
	v := picture("follower", "dead")
	v.Leader = v.Members[1].ID // so says the one that answers
	if got := v.Role(v.Members[1]); got != RoleLeader {
		t.Errorf("a leader that does not answer is called %s", got)
	}
}

// C77: the fault tolerance of small and damaged clusters.
func TestQuorumArithmetic(t *testing.T) {
	for _, c := range []struct {
		states            []string
		quorum, tolerated int
	}{
		{[]string{"leader"}, 1, 0},
		{[]string{"leader", "follower"}, 2, 0},
		{[]string{"leader", "follower", "follower"}, 2, 1},
		{[]string{"leader", "follower", "follower", "follower"}, 3, 1},
		{[]string{"leader", "follower", "follower", "follower", "follower"}, 3, 2},
		{[]string{"leader", "follower", "dead"}, 2, 0},
		{[]string{"leader", "dead", "dead"}, 2, 0},
		{[]string{"leader", "follower", "denied"}, 2, 1},
		{[]string{"leader", "learner"}, 1, 0},
		{[]string{"leader", "unstarted"}, 2, 0},
		{[]string{"leader", "follower", "follower", "unstarted"}, 3, 0},
		{[]string{"leader", "follower", "follower", "follower", "dead"}, 3, 1},
		{nil, 1, 0},
	} {
		v := picture(c.states...)
		if v.Quorum() != c.quorum || v.FailuresTolerated() != c.tolerated {
			t.Errorf("%v: quorum %d tolerated %d, want %d and %d", c.states, v.Quorum(), v.FailuresTolerated(), c.quorum, c.tolerated)
		}
	}
}

// A view without the member list says nothing of the quorum, also once recorded.
func TestVotersNotKnown(t *testing.T) {
	learner := &fault.Error{Kind: fault.Unavailable, Cause: CauseLearner, Msg: "a learner"}
	denied := &fault.Error{Kind: fault.Denied, Cause: CauseAuthRequired, Msg: "no user", Hint: "give --user"}
	for _, c := range []struct {
		v    View
		kind fault.Kind
		msg  string
		hint string
	}{
		{v: picture("leader", "learner", "dead")},
		{picture("learner"), fault.Unavailable, "only a learner was asked", "endpoint of a voter"},
		{View{ListErr: learner, Members: picture("learner").Members, Unreached: []EndpointError{{Endpoint: "x", Err: denied}}}, fault.Unavailable, "only a learner answers", "endpoint of a voter"},
		{View{ListErr: learner, Leader: 0xab, Members: picture("learner").Members}, fault.Unavailable, "follows the leader ab", "endpoint of a voter"},
		{View{ListErr: denied, Members: picture("leader", "learner").Members}, fault.Denied, "no user", "give --user"},
		{View{}, fault.Unavailable, "no member", ""},
	} {
		b, err := json.Marshal(c.v)
		if err != nil {
			t.Fatal(err)
		}
		var again View
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		if null := strings.Contains(string(b), `"voters":null`) && strings.Contains(string(b), `"quorum":null`) && strings.Contains(string(b), `"failures_tolerated":null`); null != (c.kind != "") {
			t.Errorf("%s", b)
		}
		for _, v := range []View{c.v, again} {
			err := v.VotersErr("")
			if fault.KindOf(err) != c.kind {
				t.Errorf("%+v: %v", v, err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.msg) || !strings.Contains(fault.HintOf(err), c.hint)) {
				t.Errorf("%v, hint %q: want %q, %q", err, fault.HintOf(err), c.msg, c.hint)
			}
			if _, ferr := v.FindMember("nobody"); err != nil && fault.CauseOf(ferr) != CauseVotersUnknown {
				t.Errorf("%v", ferr)
			}
		}
	}
}

func TestEffectiveQuota(t *testing.T) {
	const mib = int64(1 << 20)
	for _, c := range []struct {
		quotas []int64 // 0: does not tell
		want   int64
	}{
		{[]int64{2048 * mib, 8192 * mib, 4096 * mib}, 2048 * mib},
		{[]int64{0, 0}, QuotaUnknown},
		{[]int64{-1, -1}, QuotaDisabled},
		{[]int64{-1, 16 * mib}, 16 * mib},
		{[]int64{16 * mib, 0, -1}, 16 * mib},
		{[]int64{0, -5}, QuotaDisabled},
	} {
		var v View
		for _, q := range c.quotas {
			v.Members = append(v.Members, Member{Status: &Status{Quota: q, QuotaKnown: q != 0, DBSize: mib}})
		}
		v.Members = append(v.Members, Member{}) // one that does not answer
		if got := v.EffectiveQuota(); got != c.want {
			t.Errorf("%v: %d, want %d", c.quotas, got, c.want)
		}
	}
	v := View{Members: []Member{{Status: &Status{DBSize: mib}}, {Status: &Status{DBSize: mib, Quota: 4 * mib, QuotaKnown: true}}}}
	a := v.AssumeQuota(2 * mib)
	if r, ok := a.Members[0].Status.UsageRatio(); !ok || r != 0.5 || !a.Members[0].Status.QuotaAssumed {
		t.Errorf("assumed: %v %v", r, ok)
	}
	if r, _ := a.Members[1].Status.UsageRatio(); r != 0.25 {
		t.Errorf("the told quota was overwritten: %v", r)
	}
	if _, ok := v.Members[0].Status.UsageRatio(); ok {
		t.Error("the original view was changed")
	}
	if got := (&Status{QuotaKnown: true}).EffectiveQuota(); got != DefaultQuota {
		t.Errorf("0 is %d, want the default", got)
	}
}

func TestFindMember(t *testing.T) {
	v := View{Members: []Member{
		{ID: 0xa1, Name: "m1", Endpoint: "http://a"}, {ID: 0xb2, Name: "a1", Endpoint: "http://b"}, {ID: 0xc3, Name: "twin"}, {ID: 0xd4, Name: "twin"},
	}}
	for s, want := range map[string]uint64{"m1": 0xa1, "a1": 0xb2 /* a name wins over an ID */, "b2": 0xb2, "0xc3": 0xc3, "d4": 0xd4, "http://a": 0xa1} {
		if m, err := v.FindMember(s); err != nil || m.ID != want {
			t.Errorf("%s: %x, %v", s, m.ID, err)
		}
	}
	for s, cause := range map[string]string{"nope": CauseMemberNotFound, "": CauseMemberNotFound, "twin": "member_ambiguous"} {
		if _, err := v.FindMember(s); fault.CauseOf(err) != cause || fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// Whom nobody finds may be in another cluster, of which an endpoint was given as well.
func TestFindMemberOfAnotherCluster(t *testing.T) {
	const note = "http://b " + otherCluster + " (b2) than http://a (a1) and is left out"
	v := View{Members: []Member{{ID: 0xa1, Name: "m1"}}, Notes: []string{"something else", note}}
	if _, err := v.FindMember("m2"); !strings.HasSuffix(fault.HintOf(err), "; "+note) {
		t.Error(err, fault.HintOf(err))
	}
}

// What this host forbids is no word of the member: it may be down all the same.
func TestForbiddenByThisHostIsNotAlive(t *testing.T) {
	v := picture("leader", "follower", "dead")
	v.Members[2].Err = dialCause(dialTarget{network: "tcp", addr: "10.0.0.3:2379", port: "2379"}, &net.OpError{Op: "dial", Err: syscall.EPERM})
	if fault.KindOf(v.Members[2].Err) != fault.Denied || v.Members[2].Alive() || v.FailuresTolerated() != 0 {
		t.Errorf("alive %v, tolerated %d: %v", v.Members[2].Alive(), v.FailuresTolerated(), v.Members[2].Err)
	}
	v.Members[2].Err = fmt.Errorf("wrapped: %w", &fault.Error{Kind: fault.Denied, Cause: CauseClientCertRequired})
	if !v.Members[2].Alive() {
		t.Error("one that wants a certificate is alive")
	}
}

func TestSocketThatIsNotThere(t *testing.T) {
	e := dialCause(dialTarget{network: "unix", addr: "/run/etcd.sock"}, &net.OpError{Op: "dial", Err: syscall.ENOENT})
	if e.Cause != CauseConnectionRefused || !strings.HasSuffix(e.Msg, "nothing listens on the socket /run/etcd.sock") {
		t.Error(e)
	}
}

// Without the member list a member has no name, and says its alarms all the same.
func TestAlarmOfAMemberWithoutAName(t *testing.T) {
	v := View{Members: []Member{{ID: 0xab, Status: &Status{Alarms: []Alarm{{MemberID: 0xab, Type: AlarmNoSpace}}}}}}
	if got := mergeAlarms(v); len(got) != 1 || got[0].Source != "status of ab" {
		t.Errorf("%+v", got)
	}
}
