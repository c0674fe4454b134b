package ops

import (
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// server is what the member does with a request that its API let pass, up to
// the proposal (processInternalRaftRequestOnce).
func (w *writeWalk) server() {
	const at = "server/v3/etcdserver/v3_server.go processInternalRaftRequestOnce"
	w.gap(w.add("server", "apply_gap", at+", util.go exceedsRequestLimit"))
	w.token(w.add("server", "token", at+", auth/store.go AuthInfoFromCtx"))
	w.size(w.add("server", "request_size", at))
	w.propose(w.add("raft", "propose", at+", server.go parseProposeCtxErr"))
}

func (w *writeWalk) gap(s *WriteStep) {
	s.Numbers["limit_entries"] = maxApplyGap
	if w.m.Committed == nil || w.m.Applied == nil {
		s.unknown("%s does not tell how far it has applied what is committed", w.m.label())
		return
	}
	gap := int64(*w.m.Committed) - int64(*w.m.Applied)
	s.Numbers["committed_index"], s.Numbers["applied_index"], s.Numbers["gap_entries"] = int64(*w.m.Committed), int64(*w.m.Applied), gap
	told := fmt.Sprintf("committed %d, applied %d: %d entries behind, %d are allowed", *w.m.Committed, *w.m.Applied, gap, maxApplyGap)
	if gap > maxApplyGap {
		s.stops(rpctypes.ErrTooManyRequests.Error(), "%s", told)
		return
	}
	s.passes("%s", told)
}

// token is about who the request says it is from. No token at all passes here:
// that shows only when the entry is applied.
func (w *writeWalk) token(s *WriteStep) {
	who := w.f.Who
	switch {
	case who.AuthOn == nil:
		s.unknown("whether authentication is on is not known: %s", who.AuthBy)
	case !*who.AuthOn:
		s.passes("authentication is off: no token is looked at")
	case w.m.Credential == credentialInvalid:
		s.hint = "log in anew: a simple token is forgotten after --auth-token-ttl (5 min unless set) without use, and when a member restarts"
		s.stops(rpctypes.ErrInvalidAuthToken.Error(), "%s does not know this token: it expired, or was made elsewhere", w.m.label())
	case w.m.Credential == credentialFuture:
		s.hint = "log in anew, to this cluster"
		s.stops("context deadline exceeded", "the token was made at a later raft entry than %s has applied, so that it waits for that one until the client's own deadline: the token is of another cluster, or of this one before it was restored", w.m.label())
	case w.m.Credential == credentialGood && who.From == "token" && who.Name != "":
		s.passes("%s takes the token, which is taken to be that of %s", w.m.label(), who.Name)
	case w.m.Credential == credentialGood:
		s.passes("%s takes the %s of %s", w.m.label(), who.From, orNobody(who.Name))
	case w.m.Credential == credentialOld:
		s.passes("the token is genuine; that it is older than the last change of users and roles shows when the entry is applied")
	case who.From == "as-user":
		s.passes("not tried: taken to be a good token of %s", who.Name)
	case w.m.Credential == credentialNone:
		s.passes("the request names no user, which is not looked at until the entry is applied: it is written to every member's log first")
	default:
		why := ""
		if w.m.Err != nil {
			why = ": " + fault.Why(w.m.Err)
		}
		s.unknown("the credential was not tried on %s%s", w.m.label(), why)
	}
}

func orNobody(name string) string {
	if name == "" {
		return "a user it does not name"
	}
	return name
}

func (w *writeWalk) size(s *WriteStep) {
	limit, how := w.maxRequest()
	user, revision, spread := "", uint64(0), int64(0)
	if on := w.f.Who.AuthOn; on == nil || *on {
		user = w.f.Who.Name
		switch {
		case user == "" && w.m.Credential == credentialNone:
		case user == "":
			spread = 64 // a name that is not known, and a revision
		case w.m.AuthRevision != nil:
			revision = *w.m.AuthRevision
		default:
			spread = 11
		}
	}
	n := w.f.Write.requestBytes(w.m.ID, w.f.Now, user, revision)
	s.Numbers["request_bytes"], s.Numbers["limit_bytes"] = n, limit
	switch {
	case n > limit:
		s.stops(rpctypes.ErrRequestTooLarge.Error(), "%d bytes as raft would get it, more than --max-request-bytes %d (%s)", n, limit, how)
	case n+spread > limit:
		s.unknown("%d to %d bytes as raft would get it, %d are allowed: the user's name and the revision of users and roles are part of it and not known", n, n+spread, limit)
	default:
		s.passes("%d bytes as raft would get it, of %d (%s)", n, limit, how)
	}
}

// propose is where the write leaves the member: to the leader, to a majority's
// disks, and back to be applied here, all within 7 s.
func (w *writeWalk) propose(s *WriteStep) {
	quorum := w.f.Voters/2 + 1
	if w.f.Voters > 0 { // else the list of members is not known
		s.Numbers["voters"], s.Numbers["quorum"], s.Numbers["voters_answering"] = int64(w.f.Voters), int64(quorum), int64(w.f.Alive)
	}
	switch {
	case w.m.HasLeader == nil:
		s.unknown("%s does not tell whether it knows a leader", w.m.label())
	case !*w.m.HasLeader:
		seen := ""
		if w.f.Voters > 0 {
			seen = fmt.Sprintf("; %d of %d voters answer kvd, %d are needed", w.f.Alive, w.f.Voters, quorum)
		}
		s.stops("context deadline exceeded",
			"%s knows no leader: the proposal waits for one, and is given up after 7 s (5 s and two election timeouts%s)", w.m.label(), seen)
	case w.f.Voters > 0 && w.f.Alive < quorum:
		s.unknown("%s knows a leader, but only %d of %d voters answer kvd, and %d are needed: either the leader is about to step down, or kvd can't reach what the members reach",
			w.m.label(), w.f.Alive, w.f.Voters, quorum)
	case w.silentLeader() != "":
		s.unknown("%s knows a leader, but %s: if it is down, the proposal waits for another one, and is given up after 7 s (%q)",
			w.m.label(), w.silentLeader(), rpctypes.ErrTimeout.Error())
	case w.m.Defrags:
		s.unknown("%s is being defragmented: the write is committed, but the answer waits for the end of that, and is given up after 7 s (%q)", w.m.label(), rpctypes.ErrTimeout.Error())
	case w.f.Voters > 0:
		s.passes("%s knows a leader, and %d of %d voters answer, %d are needed; without an answer in 7 s the client is told %q, and the write may still come",
			w.m.label(), w.f.Alive, w.f.Voters, quorum, rpctypes.ErrTimeout.Error())
	default:
		s.passes("%s knows a leader; without an answer in 7 s the client is told %q, and the write may still come", w.m.label(), rpctypes.ErrTimeout.Error())
	}
}

// silentLeader says that the leader does not answer kvd; empty where it does, or
// where that can't be seen. A member goes on naming a leader that died until its
// election timeout is over.
func (w *writeWalk) silentLeader() string {
	var silent []string
	for _, m := range w.f.Members {
		switch {
		case m.Leads && m.Source != "":
			return ""
		case m.answers():
		case m.ID != 0 && m.ID == w.m.Leader:
			return "the leader " + m.label() + " does not answer"
		case !m.Learner:
			silent = append(silent, m.label())
		}
	}
	if w.m.Leader != 0 || len(silent) == 0 {
		return ""
	}
	return "it is none of those that answer, and may be one that does not: " + strings.Join(silent, ", ")
}

// apply is what happens when the entry is applied: by now it is in every
// member's log, whatever comes of it (uberApplier: CORRUPT, NOSPACE, permission,
// quota, store).
func (w *writeWalk) apply() {
	s := w.add("apply", "consistent_index", "server/v3/etcdserver/server.go apply")
	s.passes("a new entry is above what the backend has, and so is applied; after a restart, entries below are skipped")
	w.alarm(w.add("apply", "corrupt_alarm", "server/v3/etcdserver/apply/corrupt.go Put"), cluster.AlarmCorrupt, rpctypes.ErrCorrupt.Error())
	w.alarm(w.add("apply", "nospace_alarm", "server/v3/etcdserver/apply/capped.go Put"), cluster.AlarmNoSpace, rpctypes.ErrNoSpace.Error())
	w.permission(w.add("apply", checkPermission, "server/v3/etcdserver/apply/auth.go checkPutAuth, auth/store.go isOpPermitted"))
	w.quotaAtApply(w.add("apply", "quota_at_apply", "server/v3/etcdserver/apply/quota.go Put"))
	w.store(w.add("apply", "store", "server/v3/etcdserver/txn/put.go Put"))
}

func (w *writeWalk) alarm(s *WriteStep, typ, told string) {
	if !w.f.AlarmsKnown {
		s.unknown("alarms are in the members' status, which none of them told")
		return
	}
	var by []string
	for _, a := range w.f.Alarms {
		if a.Type == typ {
			by = append(by, alarmOwner(a))
		}
	}
	s.Numbers["alarms"] = int64(len(by))
	if len(by) > 0 {
		s.stops(told, "%s is raised by %s: every put is refused when it is applied", typ, strings.Join(by, ", "))
		return
	}
	s.passes("%s is not raised", typ)
}

func (w *writeWalk) permission(s *WriteStep) {
	who := w.f.Who
	switch {
	case who.AuthOn == nil:
		s.unknown("whether authentication is on is not known: %s", who.AuthBy)
	case !*who.AuthOn:
		s.passes("authentication is off: everybody may write")
	case w.m.Credential == credentialNone && who.From != "as-user":
		s.hint = "let the client log in as a user, or, with --client-cert-auth, give it a certificate whose common name is a user's"
		s.stops(rpctypes.ErrUserEmpty.Error(), "authentication is on, and the request names no user")
	case w.m.Credential == credentialOld:
		s.hint = "log in anew, as etcd's Go client does by itself"
		s.stops(rpctypes.ErrAuthOldRevision.Error(), "the token was made before the last change of users and roles")
	case who.Rights == nil:
		s.unknown("%s", who.Why)
	case !who.Rights.Exists:
		s.hint = "check the name, or add the user: etcdctl user list shows those there are"
		s.stops(rpctypes.ErrPermissionDenied.Error(), "there is no user %s", who.Name)
	case !who.Rights.mayWrite(w.f.Write.Key):
		s.Numbers["roles"], s.Numbers["write_ranges"] = int64(len(who.Rights.Roles)), int64(len(who.Rights.Write))
		s.hint = "give the user a role that may write the key: etcdctl role grant-permission, etcdctl user grant-role"
		s.stops(rpctypes.ErrPermissionDenied.Error(), "none of the %d ranges that %s may write (roles: %s) holds the key",
			len(who.Rights.Write), who.Name, orNone(who.Rights.Roles))
	case who.Rights.Root:
		s.passes("%s has the role root", who.Name)
	case w.f.Write.Lease != 0 && w.f.LeaseKeys == nil:
		s.unknown("a put on a lease takes the right to write all keys on it, and these are not known: %s", w.f.LeaseWhy)
	case slices.ContainsFunc(w.f.LeaseKeys, func(k string) bool { return !who.Rights.mayWrite(k) }):
		s.hint = "use a lease of the user's own, or give it a role that may write all keys that are on this one"
		s.stops(rpctypes.ErrPermissionDenied.Error(), "%s may not write what is on the lease already, %s", who.Name, counted(len(w.f.LeaseKeys), "key"))
	default:
		s.Numbers["roles"], s.Numbers["write_ranges"] = int64(len(who.Rights.Roles)), int64(len(who.Rights.Write))
		s.passes("%s may write the key (roles: %s)", who.Name, orNone(who.Rights.Roles))
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// quotaAtApply: each member compares again with its own file and quota. By then
// the write is done, whatever comes out: a member without room raises NOSPACE,
// and only a client of that very member is told.
func (w *writeWalk) quotaAtApply(s *WriteStep) {
	cost := w.f.Write.quotaCost()
	var full, silent []string
	for _, m := range w.f.Members {
		switch {
		case m.ID == w.m.ID || m.Quota != nil && *m.Quota == cluster.QuotaDisabled:
		case m.Quota == nil || m.DBSize == nil:
			silent = append(silent, m.label())
		case *m.DBSize+cost >= *m.Quota:
			full = append(full, fmt.Sprintf("%s (file %d + %d, quota %d)", m.label(), *m.DBSize, cost, *m.Quota))
		}
	}
	s.Numbers["members_without_room"], s.Numbers["members_silent"] = int64(len(full)), int64(len(silent))
	switch {
	case len(full) > 0:
		s.passes("the write succeeds here, but is the last: %s has no room, and raises NOSPACE for the whole cluster when it applies it", strings.Join(full, ", "))
	case len(silent) > 0:
		s.passes("compared again by each member with its own file; %s did not tell theirs", strings.Join(silent, ", "))
	case w.f.Voters == 0:
		s.passes("compared again by each member with its own file; which others there are is not known")
	default:
		s.passes("compared again by each member with its own file; all have room")
	}
}

func (w *writeWalk) store(s *WriteStep) {
	switch {
	case w.f.Write.Lease == 0:
		s.passes("the key is written: nothing is left that could refuse it")
	case w.f.LeaseExists == nil:
		s.unknown("whether lease %s exists is not known: %s", cluster.FormatID(w.f.Write.Lease), w.f.LeaseWhy)
	case !*w.f.LeaseExists:
		s.stops(rpctypes.ErrLeaseNotFound.Error(), "there is no lease %s", cluster.FormatID(w.f.Write.Lease))
	default:
		s.passes("lease %s exists; the key is written", cluster.FormatID(w.f.Write.Lease))
	}
}
