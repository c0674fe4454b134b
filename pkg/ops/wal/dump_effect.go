package wal

import (
	"fmt"
	"slices"
)

// Effect says that an entry may have changed nothing when it was applied, or has
// not. What the log can't know is not guessed at: an entry without an Effect may
// still have failed.
type Effect struct {
	None  bool   `json:"none"`  // it has had none; false: it may have had none, or another
	Cause string `json:"cause"` // stable, one of the constants
	Why   string `json:"why"`
}

// Causes of an Effect.
const (
	EffectBranch       = "branch"        // a transaction: which branch was taken is not in the log
	EffectNoSpace      = "nospace"       // refused: the NOSPACE alarm was on
	EffectCorrupt      = "corrupt"       // refused: the CORRUPT alarm was on
	EffectLeaseGone    = "lease_gone"    // refused: the lease is not there
	EffectCompacted    = "compacted"     // refused if it was compacted as far before
	EffectAuthRevision = "auth_revision" // refused if the permissions changed between proposal and application
	EffectNeedsKey     = "needs_key"     // refused if the key is not there
	EffectPermission   = "permission"    // refused if its user was not permitted
)

const (
	// remembered is for how many leases it is remembered which entry revoked them.
	remembered = 1 << 16
	// inFlight is how far a request may be behind when it is applied: etcd takes
	// no more of them while it has so many to apply
	// (maxGapBetweenApplyAndCommitIndex in server/etcdserver/v3_server.go).
	inFlight = 5000
)

// effects follows what decides whether an entry has an effect. It is told of
// committed entries only.
type effects struct {
	alarms    map[string]map[ID]uint64 // alarm, member that raised it → entry
	revoked   recent
	whole     bool                 // the log goes back to entry 1, and nothing was restored before
	granted   map[LeaseID]struct{} // then: the leases that it has granted so far; nil where there were too many
	compacted int64                // the highest revision that was asked for,
	compactAt uint64               // and the entry that did

	authAt  uint64 // the last change of permissions,
	authWas uint64 // and the newest revision of permissions that was seen before it
	authRev uint64 // the newest that was seen
}

func newEffects() *effects {
	return &effects{granted: map[LeaseID]struct{}{}, alarms: map[string]map[ID]uint64{"nospace": {}, "corrupt": {}}}
}

// judge returns what is to be said of an entry.
func (e *effects) judge(index uint64, r *Request) *Effect {
	if why := e.refused(r); why != nil {
		return why
	}
	if r.AuthRevision > 0 && r.AuthRevision <= e.authWas && index <= e.authAt+inFlight {
		return &Effect{false, EffectAuthRevision, fmt.Sprintf("it was proposed at revision %d of the permissions, which entry %d was to change", r.AuthRevision, e.authAt)}
	}
	branch := r.Type == TxnType && branches(&r.Txn)
	const whichBranch = "which branch was taken is not in the log"
	switch {
	case r.unsure() && branch:
		return &Effect{false, EffectPermission, "refused unless its user had the permission; " + whichBranch}
	case r.unsure():
		return &Effect{false, EffectPermission, "refused unless its user had the permission"}
	case branch:
		return &Effect{false, EffectBranch, whichBranch}
	case e.neverGranted(r.onLease()):
		return &Effect{false, EffectLeaseGone, "the log goes back to entry 1, and no entry has granted the lease: it is refused"}
	case r.Type == PutType && (r.KV.IgnoreValue || r.KV.IgnoreLease):
		return &Effect{false, EffectNeedsKey, "it needs the key to be there"}
	case r.Type == CompactionType && r.Compaction.Revision <= e.compacted:
		return &Effect{false, EffectCompacted, fmt.Sprintf("entry %d was to compact up to revision %d already", e.compactAt, e.compacted)}
	}
	return nil
}

// refused knows of requests that have failed for certain, and of puts in a transaction
// within one, which NOSPACE keeps out from etcd 3.5.33, 3.6.14 and 3.7.1 on (costTxnReq in
// server/storage/quota.go): the log does not tell which patch release applied it.
func (e *effects) refused(r *Request) *Effect {
	capped, corrupt, nested := false, false, false // server/etcdserver/apply, capped.go and corrupt.go
	var lease LeaseID
	switch r.Type {
	case PutType:
		capped, corrupt, lease = true, true, r.KV.Lease
	case TxnType:
		capped, corrupt = writes(r.Txn.Success, true) || writes(r.Txn.Failure, true), true
		nested = !slices.ContainsFunc(r.Txn.Success, isPut) && !slices.ContainsFunc(r.Txn.Failure, isPut)
	case LeaseGrantType:
		capped, corrupt = true, true
	case LeaseRevokeType:
		corrupt, lease = true, r.Lease.ID
	case RangeType, DeleteRangeType, CompactionType:
		corrupt = true
	}
	if at := first(e.alarms["corrupt"]); at > 0 && corrupt {
		return &Effect{true, EffectCorrupt, fmt.Sprintf("refused: the CORRUPT alarm was raised by entry %d", at)}
	}
	switch at := first(e.alarms["nospace"]); {
	case at > 0 && capped && nested:
		return &Effect{false, EffectNoSpace, fmt.Sprintf("refused by etcd 3.5.33, 3.6.14, 3.7.1 and later: the NOSPACE alarm was raised by entry %d; before, a put in a transaction within a transaction went through", at)}
	case at > 0 && capped:
		return &Effect{true, EffectNoSpace, fmt.Sprintf("refused: the NOSPACE alarm was raised by entry %d", at)}
	}
	if at := e.revoked.at(lease); at > 0 && lease != noLease {
		return &Effect{true, EffectLeaseGone, fmt.Sprintf("refused: entry %d revoked the lease", at)}
	}
	return nil
}

// onLease is the lease that has to be there for a request, or noLease.
func (r *Request) onLease() LeaseID {
	switch r.Type {
	case PutType:
		return r.KV.Lease
	case LeaseRevokeType:
		return r.Lease.ID
	}
	return noLease
}

// neverGranted reports a lease that nobody has granted, as far as the log knows.
func (e *effects) neverGranted(id LeaseID) bool {
	if id == noLease || !e.whole || e.granted == nil {
		return false
	}
	_, granted := e.granted[id]
	return !granted
}

// begins is told where the log begins: at which entry, and whether behind what was
// restored, which has leases that no entry granted. A restore writes a snapshot record of
// term 1 behind the members that it adds (saveWALAndSnap in etcdutl/snapshot/v3_snapshot.go).
func (e *effects) begins(r *Record, entries int64) {
	switch {
	case r.Type == EntryType && entries == 0:
		e.whole = r.Entry.Index == 1
	case r.Type == SnapshotType && r.Snapshot.Index > 0 && r.Snapshot.Term <= 1:
		e.whole = false
	}
}

// first returns the earliest entry that raised an alarm; 0: it is not raised.
func first(raised map[ID]uint64) (at uint64) {
	for _, i := range raised {
		if at == 0 || i < at {
			at = i
		}
	}
	return at
}

func isPut(o Op) bool { return o.Op == PutType }

// noLease is what a request that concerns no lease has in place of one. It can be asked
// to be revoked: that goes into the log as well, and is refused when it is applied.
const noLease = 0

// writes reports whether requests change a key; puts: whether they put one.
func writes(ops []Op, puts bool) bool {
	for i := range ops {
		o := &ops[i]
		switch {
		case o.Op == PutType, o.Op == DeleteRangeType && !puts:
			return true
		case o.Txn != nil && (writes(o.Txn.Success, puts) || writes(o.Txn.Failure, puts)):
			return true
		}
	}
	return false
}

// branches reports a transaction that writes or does not, or one thing or another, by a
// condition of its own or of one within it. Without a condition its first branch is taken.
func branches(t *Txn) bool {
	if len(t.Compare) > 0 && (writes(t.Success, false) || writes(t.Failure, false)) {
		return true
	}
	return slices.ContainsFunc(t.Success, func(o Op) bool { return o.Txn != nil && branches(o.Txn) })
}

// apply follows an entry that had an effect, or may have had one.
func (e *effects) apply(index uint64, r *Request) {
	switch {
	case r.Type == AlarmType && e.alarms[r.Alarm.Alarm] != nil:
		raised := e.alarms[r.Alarm.Alarm]
		switch _, on := raised[r.Alarm.Member]; {
		case r.Alarm.Action == "activate" && !on:
			raised[r.Alarm.Member] = index
		case r.Alarm.Action == "deactivate":
			delete(raised, r.Alarm.Member)
		}
	case r.Type == LeaseGrantType:
		e.revoked.drop(r.Lease.ID)
		if len(e.granted) == remembered {
			e.granted = nil
		}
		if e.granted != nil {
			e.granted[r.Lease.ID] = struct{}{}
		}
	case r.Type == LeaseRevokeType && !r.unsure():
		e.revoked.add(r.Lease.ID, index)
	case r.Type == CompactionType && r.Compaction.Revision > e.compacted:
		e.compacted, e.compactAt = r.Compaction.Revision, index
	}
	e.authRev = max(e.authRev, r.AuthRevision)
	if r.changesAuth() {
		e.authAt, e.authWas = index, e.authRev
	}
}

// rootUser may do everything while authentication is on: nobody can take that from
// it then (UserDelete, UserRevokeRole and RoleDelete in server/auth/store.go).
const rootUser = "root"

// leastEnabled is the lowest revision of the permissions at which authentication can be
// on: it begins at 1, and a user root and its role have to be there first, which count
// it up (NewAuthStore, UserAdd, UserGrantRole and AuthEnable in server/auth/store.go).
const leastEnabled = 3

// unsure is true for what is held against its user's permissions only when it is
// applied, after it was written to the log (server/etcdserver/apply/auth.go). With
// --client-cert-auth every request has a user, the common name of its certificate, also
// where authentication was never on, as in most clusters of Kubernetes.
func (r *Request) unsure() bool {
	if r.User == "" || r.User == rootUser || 0 < r.AuthRevision && r.AuthRevision < leastEnabled {
		return false
	}
	switch r.Type {
	case PutType, RangeType, DeleteRangeType, TxnType, LeaseRevokeType, "auth_user_get", "auth_user_list", "auth_role_get", "auth_role_list":
		return true
	}
	return r.Type == "auth_enable" || r.changesAuth()
}

// changesAuth is true for what counts up the revision of the permissions
// (commitRevision in server/auth/store.go): AuthEnable alone takes it as it is.
func (r *Request) changesAuth() bool {
	switch r.Type {
	case "auth_disable", "auth_user_add", "auth_user_delete", "auth_user_change_password", "auth_user_grant_role",
		"auth_user_revoke_role", "auth_role_add", "auth_role_delete", "auth_role_grant_permission", "auth_role_revoke_permission":
		return true
	}
	return false
}

// recent remembers the entries of so many leases, the last ones.
type recent struct {
	index map[LeaseID]uint64
	order []LeaseID
}

func (r *recent) at(id LeaseID) uint64 { return r.index[id] }

func (r *recent) add(id LeaseID, index uint64) {
	if r.index == nil {
		r.index = map[LeaseID]uint64{}
	}
	r.index[id] = index
	if r.order = append(r.order, id); len(r.order) > remembered {
		delete(r.index, r.order[0])
		r.order = r.order[1:]
	}
}

func (r *recent) drop(id LeaseID) { delete(r.index, id) }
