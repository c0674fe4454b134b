package ops

import (
	"github.com/dustin/go-humanize"

	"kvd/pkg/ops/cluster"
)

// putOverhead is what etcd charges against the quota for a put beside its key and
// value, in bytes (kvOverhead in server/storage/quota.go).
const putOverhead = 256

// smallWrite is the charge for a small object: a key of 100 bytes and a value
// of 1 KiB, about what a heartbeat or an Event costs.
const smallWrite = putOverhead + 100 + 1024

// fits reports whether a write with this charge would pass a member's quota.
// It is the comparison that etcd makes: file size plus charge, less than the
// quota (BackendQuota.Available). Where there is no quota, or none is known,
// everything fits.
func fits(s *cluster.Status, charge int64) bool {
	q := s.EffectiveQuota()
	return q <= 0 || s.DBSize+charge < q
}

// binary writes a size in binary units, precise enough that a file just above
// its quota does not look equal to it.
func binary(n int64) string { return humanize.IBytesN(uint64(max(n, 0)), 4) }
