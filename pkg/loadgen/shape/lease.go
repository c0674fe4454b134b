package shape

import (
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// What kube-apiserver does with leases by default (lease_manager.go, and
// --event-ttl).
const (
	EventTTL       = 3600 // seconds
	LeaseReuse     = 60   // seconds that a lease is given out again
	LeaseObjects   = 1000 // keys that it is given to at most
	MasterLeaseTTL = 15   // seconds; 5 % of it are none, so each write has its own lease
)

// Leases gives out the leases that a storage's objects end with. One is given out
// again for a while, and to a number of objects; it is asked for longer by that
// while, is never kept alive and never revoked, but expires. Leases is safe for
// concurrent use.
type Leases struct {
	ttl, reuse int64
	objects    int

	mu      sync.Mutex
	id      clientv3.LeaseID
	expires time.Time
	used    int
}

// NewLeases returns leases for objects that are to live ttl seconds, each lease
// given out for reuse seconds (5 % of ttl at most) and to so many objects. With no
// reuse each object has its own, as in Kubernetes before it gave them out again.
func NewLeases(ttl, reuse int64, objects int) *Leases {
	return &Leases{ttl: ttl, reuse: min(reuse, ttl/20), objects: objects}
}

// Take returns the lease for an object that is written now. Where there is none to
// be given out again it has grant ask etcd for one of so many seconds; others who
// take one meanwhile wait. The error is grant's.
func (l *Leases) Take(now time.Time, grant func(ttl int64) (clientv3.LeaseID, error)) (clientv3.LeaseID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := now.Add(time.Duration(l.ttl) * time.Second)
	l.used++
	if end.Before(l.expires) && l.used <= l.objects {
		return l.id, nil
	}
	id, err := grant(l.ttl + l.reuse)
	if err != nil {
		return 0, err
	}
	l.id, l.used = id, 1
	l.expires = end.Add(time.Duration(l.reuse) * time.Second)
	return id, nil
}
