package wal

import "slices"

// maxHeld is for how many keys it is remembered what leases they are on: 100
// bytes and the key's own for each.
const maxHeld = 50_000

// maxHeldText is how many bytes of such keys are remembered.
const maxHeldText = 8 << 20

// Held is a key that a lease held.
type Held struct {
	Key   []byte `json:"-"`           // see MarshalJSON
	Since uint64 `json:"since_index"` // of the entry that put it on the lease
	// Sure is false where the lease may not have held it, or may not have ended:
	// by a transaction that may have taken its other branch, or by a request that
	// may have been refused.
	Sure bool `json:"sure"`
}

// hold is that a key is on a lease.
type hold struct {
	lease LeaseID
	since uint64
	sure  bool
}

// holds follows which keys are on which leases, of the keys that a filter wants.
// A key is on one lease, but after a transaction, or a request that may have been
// refused, it may be either on the old one or on the new.
type holds struct {
	filter *Filter
	keys   map[string][]hold
	leases map[LeaseID]map[string]struct{}
	text   int  // bytes of the keys
	full   bool // some were not remembered
}

func newHolds(f *Filter) *holds {
	return &holds{filter: f, keys: map[string][]hold{}, leases: map[LeaseID]map[string]struct{}{}}
}

// apply follows an entry. For a revoke it returns the keys that go with the
// lease.
func (h *holds) apply(index uint64, r *Request) []Held {
	sure := !r.unsure()
	switch r.Type {
	case PutType, DeleteRangeType:
		h.op(index, &r.KV, sure)
	case TxnType:
		h.txn(index, &r.Txn, sure)
	case LeaseRevokeType:
		return h.revoke(r.Lease.ID, sure)
	}
	return nil
}

func (h *holds) txn(index uint64, t *Txn, sure bool) {
	sure = sure && len(t.Compare) == 0 // then Success is taken
	for i := range t.Success {
		h.op(index, &t.Success[i], sure)
	}
	for i := range t.Failure {
		if len(t.Compare) > 0 {
			h.op(index, &t.Failure[i], false)
		}
	}
}

func (h *holds) op(index uint64, o *Op, sure bool) {
	switch {
	case o.Txn != nil:
		h.txn(index, o.Txn, sure)
	case o.Op == PutType && !o.IgnoreLease && h.filter.key(o.Key):
		h.release(string(o.Key), sure)
		if o.Lease != 0 {
			h.attach(string(o.Key), hold{o.Lease, index, sure})
		}
	case o.Op == DeleteRangeType && len(o.End) == 0:
		h.release(string(o.Key), sure)
	case o.Op == DeleteRangeType:
		for k := range h.keys {
			if o.covers(k) {
				h.release(k, sure)
			}
		}
	}
}

// release takes a key off its leases; if that is not sure, it may still be on them.
func (h *holds) release(key string, sure bool) {
	was := h.keys[key]
	for i := range was {
		was[i].sure = false
		if sure {
			h.detach(key, was[i].lease)
		}
	}
	if sure {
		h.forget(key)
	}
}

// forget is for a key that is on no lease any more.
func (h *holds) forget(key string) {
	if _, known := h.keys[key]; known {
		h.text -= len(key)
		delete(h.keys, key)
	}
}

func (h *holds) attach(key string, on hold) {
	was := h.keys[key]
	if i := slices.IndexFunc(was, func(o hold) bool { return o.lease == on.lease }); i >= 0 {
		was[i].sure = on.sure
		return
	}
	if len(was) == 0 {
		if len(h.keys) >= maxHeld || h.text+len(key) > maxHeldText {
			h.full = true
			return
		}
		h.text += len(key)
	}
	h.keys[key] = append(was, on)
	if h.leases[on.lease] == nil {
		h.leases[on.lease] = map[string]struct{}{}
	}
	h.leases[on.lease][key] = struct{}{}
}

func (h *holds) detach(key string, lease LeaseID) {
	delete(h.leases[lease], key)
	if len(h.leases[lease]) == 0 {
		delete(h.leases, lease)
	}
}

// revoke returns the keys of a lease. If it is not sure that it has ended, they
// stay on it.
func (h *holds) revoke(lease LeaseID, sure bool) []Held {
	var out []Held
	for key := range h.leases[lease] {
		was := h.keys[key]
		i := slices.IndexFunc(was, func(o hold) bool { return o.lease == lease })
		out = append(out, Held{[]byte(key), was[i].since, was[i].sure && sure})
		switch {
		case !sure:
			was[i].sure = false
		case len(was) == 1:
			h.forget(key)
		default:
			h.keys[key] = slices.Delete(was, i, i+1)
		}
	}
	if sure {
		delete(h.leases, lease)
	}
	slices.SortFunc(out, func(a, b Held) int { return slices.Compare(a.Key, b.Key) })
	return out
}
