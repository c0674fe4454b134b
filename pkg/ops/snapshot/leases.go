package snapshot

import "encoding/binary"

// mostLeases is how many leases of keys are remembered, to find those that are not
// there: some 30 MiB of memory. With more, nothing is said of them.
const mostLeases = 1 << 20

// leaseUse counts the live keys of each lease, until the lease itself is found: the
// bucket of keys is read first.
type leaseUse struct {
	keys  map[int64]int64
	over  bool
	first int64 // the least lease that is missing
}

func (l *leaseUse) use(id int64) {
	if l.keys == nil {
		l.keys = map[int64]int64{}
	}
	if _, known := l.keys[id]; !known && len(l.keys) >= mostLeases {
		l.over = true
		return
	}
	l.keys[id]++
}

func (l *leaseUse) found(key []byte) {
	if len(key) == 8 {
		delete(l.keys, int64(binary.BigEndian.Uint64(key))) //nolint:gosec // the same bits
	}
}

// without returns how many keys are on leases that are not there, and the least of
// those leases.
//
// A start attaches each key to its lease, and logs an error where there is none: the
// key then has no end, until it is put again or deleted.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/mvcc/kvstore.go (restore), lease/lessor.go (Attach).
func (l *leaseUse) without() (keys, least int64) {
	if l.over {
		return 0, 0
	}
	for id, n := range l.keys {
		if keys == 0 || id < least {
			least = id
		}
		keys += n
	}
	return keys, least
}
