package ops

import (
	"kvd/pkg/ops/cluster"
)

const (
	// suggestedMaxQuota is the largest quota that etcd suggests
	// (MaxQuotaBytes in server/storage/quota.go), in bytes.
	suggestedMaxQuota int64 = 8 << 30
	// maxRequest is the largest request that a server takes unless its
	// --max-request-bytes says otherwise, which no RPC tells
	// (DefaultMaxRequestBytes in server/embed), in bytes; requestOverhead is what
	// of it a put may need beside key and value.
	maxRequest      int64 = 3 << 19
	requestOverhead int64 = 512
)

// Headroom is how much a member's quota has left.
type Headroom struct {
	Member cluster.Member
	Quota  int64 // bytes, or cluster.QuotaDisabled or cluster.QuotaUnknown
	Left   int64 // quota less file size, in bytes; negative above the quota; 0 where there is no quota
	Put    int64 // key and value of the largest single put that this member would let pass now, in bytes
}

// HeadroomOf returns what each member that answered has left of its quota, in the
// view's order.
//
// The largest put follows etcd's own comparison: file size + 256 + key + value
// must be less than the quota. It is 0 while an alarm makes the cluster
// read-only, and never above the default --max-request-bytes of 1.5 MiB.
func HeadroomOf(v cluster.View) []Headroom {
	var out []Headroom
	for _, m := range v.Answered() {
		h := Headroom{Member: m, Quota: m.Status.EffectiveQuota(), Put: maxRequest - requestOverhead}
		if h.Quota > 0 {
			h.Left = h.Quota - m.Status.DBSize
			h.Put = max(0, min(h.Put, h.Left-putOverhead-1))
		}
		if v.HasAlarm(cluster.AlarmNoSpace) || v.HasAlarm(cluster.AlarmCorrupt) {
			h.Put = 0
		}
		out = append(out, h)
	}
	return out
}

// LargestPut returns the key and value bytes of the largest single put that
// would pass on every member that answered, and the member that limits it: each
// member checks every write against its own file and quota, and the first to
// find no room makes the whole cluster read-only. It is false where nobody
// answered.
func LargestPut(v cluster.View) (bytes int64, by cluster.Member, ok bool) {
	for _, h := range HeadroomOf(v) {
		if !ok || h.Put < bytes {
			bytes, by, ok = h.Put, h.Member, true
		}
	}
	return bytes, by, ok
}
