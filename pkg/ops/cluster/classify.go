package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"kvd/pkg/ops/fault"
)

// verdictOfServer is what one of etcd's own errors means to a person.
type verdictOfServer struct {
	is    error
	kind  fault.Kind
	cause string
	msg   string // empty: etcd's own words
	hint  string
}

// serverVerdicts lists etcd's errors (api/v3/v3rpc/rpctypes/error.go) that have
// a cause of their own here.
func serverVerdicts() []verdictOfServer {
	const (
		noQuorum = "see `kvd status` for who is down: a majority of the voters must be up and reach each other on their peer URLs"
		rootOnly = "use a user with the root role, or grant this one what it needs (`etcdctl role grant-permission`)"
	)
	return []verdictOfServer{
		{rpctypes.ErrNoLeader, fault.Unavailable, CauseNoLeader, "the member knows no leader: the quorum is lost, or an election is under way", noQuorum},
		{rpctypes.ErrLeaderChanged, fault.Unavailable, CauseLeaderChanged, "leadership moved while the request was under way; it may or may not have taken effect", "look, then try again"},
		{rpctypes.ErrNotLeader, fault.Refused, CauseNotLeader, "this member is not the leader", "ask the leader, see `kvd status`"},
		{rpctypes.ErrTimeout, fault.Unavailable, CauseRequestTimedOut, "etcd gave up after about 7 s: no majority agreed in that time, for lack of a quorum or under overload; it may still take effect", noQuorum},
		{rpctypes.ErrTimeoutDueToLeaderFail, fault.Unavailable, CauseRequestTimedOut, "etcd gave up: the leader failed while the request was under way; it may or may not have taken effect", "look, then try again"},
		{rpctypes.ErrTimeoutDueToConnectionLost, fault.Unavailable, CauseRequestTimedOut, "etcd gave up: the member lost its connection to the others", noQuorum},
		{rpctypes.ErrTimeoutWaitAppliedIndex, fault.Unavailable, CauseRequestTimedOut, "etcd gave up: the member lags too far behind to answer", "ask another member, and see the lag in `kvd status`"},
		{rpctypes.ErrTooManyRequests, fault.Unavailable, CauseTooManyRequests, "the member has over 5000 committed entries still to apply and takes no more", "wait, write less, and look for a slow disk or large requests"},
		{rpctypes.ErrRequestTooLarge, fault.Refused, CauseRequestTooLarge, "the request is larger than the server's --max-request-bytes (1.5 MiB unless set), key and framing included", "store a smaller value; raising --max-request-bytes on every member slows all of them down"},
		{rpctypes.ErrTooManyOps, fault.Refused, CauseTooManyOps, "the transaction has more operations than the server's --max-txn-ops (128 unless set)", "make it smaller"},
		{rpctypes.ErrNoSpace, fault.Refused, CauseNoSpace, "the NOSPACE alarm is raised: the cluster takes reads and deletes only", "run `kvd alarm recover --dry-run` to see the way out"},
		{rpctypes.ErrCorrupt, fault.Damage, CauseCorrupt, "the CORRUPT alarm is raised: a member's data differs from the others'", "find out which with `kvd alarm list`, and replace that member; do not disarm before"},
		{rpctypes.ErrCompacted, fault.Refused, CauseCompacted, "that revision has been compacted away", "ask for a newer revision"},
		{rpctypes.ErrFutureRev, fault.Refused, CauseFutureRevision, "that revision does not exist yet", "ask for an older revision; `kvd status` shows the latest"},
		{rpctypes.ErrLeaseNotFound, fault.Refused, CauseLeaseNotFound, "there is no such lease, or it has expired", "see `kvd lease list`"},
		{rpctypes.ErrMemberNotFound, fault.Refused, CauseMemberNotFound, "there is no such member", "see `kvd member list`"},
		{rpctypes.ErrUnhealthy, fault.Refused, CauseUnhealthy, "etcd refuses this change while not all members have been connected for some seconds", "see `kvd status`, and wait until every member is up"},
		{rpctypes.ErrMemberNotEnoughStarted, fault.Refused, CauseNotEnoughStarted, "etcd refuses this change: fewer members have ever started than would be a quorum after it", "start the members that have no name in `kvd member list`, or remove them"},
		{rpctypes.ErrPeerURLExist, fault.Refused, CausePeerURLExists, "another member has that peer URL", "see `kvd member list`; a member that is to come back at the same place is removed first (`kvd member replace`)"},
		{rpctypes.ErrMemberLearnerNotReady, fault.Refused, CauseLearnerNotReady, "the learner has less than nine tenths of the leader's log", "wait until it has caught up, see `kvd member list`"},
		{rpctypes.ErrMemberNotLearner, fault.Refused, CauseNotALearner, "the member is a voter already", "see `kvd member list`"},
		{rpctypes.ErrTooManyLearners, fault.Refused, CauseTooManyLearners, "the cluster has as many learners as the servers' --max-learners allows (1 unless set)", "promote or remove the learner that is there, see `kvd member list`"},
		{rpctypes.ErrBadLeaderTransferee, fault.Refused, "bad_transferee", "the member can't lead: it is a learner, or no member", "choose a voter, see `kvd member list`"},
		{rpctypes.ErrStopped, fault.Unavailable, CauseStopped, "the member is shutting down", "ask another member"},
		{rpctypes.ErrUserEmpty, fault.Denied, CauseAuthRequired, "authentication is on, and no user was given", "give --user NAME:PASSWORD, or a client certificate whose common name is a user's name"},
		{rpctypes.ErrAuthFailed, fault.Denied, CauseAuthFailed, "wrong user name or password", "check --user and --password"},
		{rpctypes.ErrUserNotFound, fault.Denied, CauseAuthFailed, "there is no such user: the name comes from --user, or from the client certificate's common name", "check --user, or create the user"},
		{rpctypes.ErrInvalidAuthToken, fault.Denied, CauseAuthFailed, "the member does not accept our token", "try again; if that does not help, the members' --auth-token settings differ: `kvd diagnose` says whose"},
		{rpctypes.ErrAuthOldRevision, fault.Denied, CauseAuthFailed, "users or roles changed while the request was under way", "try again"},
		{rpctypes.ErrPermissionDenied, fault.Denied, CausePermissionDenied, "the user lacks the role for this, or is none: its name comes from --user, or from the client certificate's common name", rootOnly},
		{rpctypes.ErrAuthNotEnabled, fault.Refused, CauseAuthNotEnabled, "authentication is not on", "leave out --user"},
	}
}

// Classify turns an error of etcd's client into one for people. It looks at the
// error only; the methods of the clients also probe the endpoint where the error
// does not tell. A *fault.Error comes back as it is.
func Classify(op, endpoint string, err error) *fault.Error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	e := &fault.Error{Op: op, Subject: endpoint}
	err = ofServer(err)
	for _, v := range serverVerdicts() {
		if errors.Is(err, v.is) {
			e.Kind, e.Cause, e.Msg, e.Hint = v.kind, v.cause, v.msg, v.hint
			return e
		}
	}
	if strings.Contains(err.Error(), "not supported for learner") {
		return fill(e, fault.Refused, CauseLearner, "this member is a learner, which serves its status and serializable reads only", "give the endpoint of a voter")
	}
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		e.Kind, e.Cause, e.Msg = kindOfCode(etcd.Code()), CauseRejected, strings.TrimPrefix(etcd.Error(), "etcdserver: ")
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fill(e, fault.Interrupted, CauseCanceled, "interrupted", "")
	case errors.Is(err, context.DeadlineExceeded):
		return deadline(e)
	}
	return classifyStatus(e, err)
}

// ofServer is the error that a server means, where it is one of etcd's own.
func ofServer(err error) error {
	if err == nil {
		return nil
	}
	if why := refused(rpctypes.ErrorDesc(err)); why != nil {
		return why
	}
	return rpctypes.Error(err)
}

// classifyStatus reads errors that gRPC itself makes, or a server that is not
// quite etcd.
func classifyStatus(e *fault.Error, err error) *fault.Error {
	s, ok := status.FromError(err)
	if !ok {
		e.Err = err
		return fill(e, fault.Internal, CauseUnknown, "", "")
	}
	msg := s.Message()
	switch code := s.Code(); {
	case code == codes.Canceled:
		return fill(e, fault.Interrupted, CauseCanceled, "interrupted", "")
	case code == codes.DeadlineExceeded:
		return deadline(e)
	case strings.Contains(msg, "unexpected HTTP status code"), code == codes.Unimplemented && strings.Contains(msg, "unknown service"):
		return fill(e, fault.Unavailable, CauseNotEtcd, "something that is not etcd answers there: "+msg, "check host and port")
	case code == codes.Unimplemented:
		return fill(e, fault.Refused, CauseUnsupported, "this version of etcd does not know the request", "see the member's version in `kvd status`")
	case code == codes.ResourceExhausted && strings.Contains(msg, "trying to send message larger than max"):
		return fill(e, fault.Refused, CauseClientMsgTooLarge, "the request is larger than the client's own limit of 2 MiB; it was not sent", "store a smaller value: the server's limit is 1.5 MiB unless raised")
	case code == codes.ResourceExhausted && strings.Contains(msg, "received message larger than max"):
		return fill(e, fault.Refused, CauseRequestTooLarge, "the request is larger than the server takes: "+msg, "store a smaller value"+ofReceiveLimit(msg))
	case code == codes.Unavailable:
		e.Err = errors.New(msg)
		return fill(e, fault.Unavailable, CauseConnectionLost, "the connection broke", "try again")
	case code == codes.Unknown, code == codes.Internal: // what a server says for an error of its own that has no code (togRPCError in v3rpc/util.go)
		return fill(e, fault.Unavailable, CauseRejected, "the server failed at it: "+strings.TrimPrefix(msg, "etcdserver: "),
			"it may or may not have taken effect: look; the server's own log tells more")
	default:
		return fill(e, kindOfCode(code), CauseRejected, strings.TrimPrefix(msg, "etcdserver: "), "")
	}
}

// receiveOverhead is what a server's gRPC takes beyond its --max-request-bytes
// (grpcOverheadBytes in server/config/config.go), in bytes.
const receiveOverhead = 512 << 10

// ofReceiveLimit says which --max-request-bytes gRPC's limit follows from, where it can.
func ofReceiveLimit(msg string) string {
	var size, limit int64
	if i := strings.Index(msg, "("); i < 0 {
		return ""
	} else if n, err := fmt.Sscanf(msg[i:], "(%d vs. %d)", &size, &limit); n != 2 || err != nil || limit <= receiveOverhead {
		return ""
	}
	return fmt.Sprintf(": the server runs with --max-request-bytes=%d", limit-receiveOverhead)
}

func fill(e *fault.Error, kind fault.Kind, cause, msg, hint string) *fault.Error {
	e.Kind, e.Cause, e.Msg, e.Hint = kind, cause, msg, hint
	return e
}

func deadline(e *fault.Error) *fault.Error {
	return fill(e, fault.Unavailable, CauseDeadline, "no answer to this request in time; it may still take effect",
		"a member that defragments answers nothing else; an overloaded one answers late. Give it more time with --command-timeout")
}

func kindOfCode(c codes.Code) fault.Kind {
	switch c {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted:
		return fault.Unavailable
	case codes.Unauthenticated, codes.PermissionDenied:
		return fault.Denied
	case codes.DataLoss:
		return fault.Damage
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.NotFound, codes.AlreadyExists, codes.Unimplemented:
		return fault.Refused
	}
	return fault.Internal
}

// needsProbe reports that an error only says that nothing useful came back.
func needsProbe(e *fault.Error) bool {
	switch e.Cause {
	case CauseDeadline, CauseConnectionLost, CauseNotEtcd:
		return true
	}
	return false
}
