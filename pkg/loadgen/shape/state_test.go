package shape

import (
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLeases has leases given out again as long and as often as asked.
func TestLeases(t *testing.T) {
	start := time.Unix(1795900000, 0)
	for _, row := range []struct {
		name       string
		leases     *Leases
		every      time.Duration
		n, granted int
		ttl        int64
	}{
		{"of Events", NewLeases(EventTTL, LeaseReuse, LeaseObjects), 100 * time.Millisecond, 1800, 3, 3660},
		{"of many Events", NewLeases(EventTTL, LeaseReuse, LeaseObjects), time.Millisecond, 5000, 5, 3660},
		{"without a limit", NewLeases(EventTTL, LeaseReuse, 1<<30), time.Millisecond, 5000, 1, 3660},
		{"one each", NewLeases(EventTTL, 0, 1), time.Millisecond, 50, 50, 3600},
		{"of API servers", NewLeases(MasterLeaseTTL, LeaseReuse, LeaseObjects), 10 * time.Second, 6, 6, 15},
	} {
		granted := 0
		var last clientv3.LeaseID
		for i := range row.n {
			id, err := row.leases.Take(start.Add(time.Duration(i)*row.every), func(ttl int64) (clientv3.LeaseID, error) {
				if ttl != row.ttl {
					t.Errorf("%s: a lease of %d s, want %d", row.name, ttl, row.ttl)
				}
				granted++
				return clientv3.LeaseID(granted), nil
			})
			if err != nil || int(id) != granted || id < last {
				t.Fatalf("%s: lease %d, %d granted: %v", row.name, id, granted, err)
			}
			last = id
		}
		if granted != row.granted {
			t.Errorf("%s: %d leases for %d objects, want %d", row.name, granted, row.n, row.granted)
		}
	}
	refused := errors.New("refused")
	if _, err := NewLeases(EventTTL, LeaseReuse, 1).Take(start, func(int64) (clientv3.LeaseID, error) { return 0, refused }); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
}

// TestCompactor has the one of two API servers that comes first compact what was
// there a round ago.
func TestCompactor(t *testing.T) {
	version, revision, written := int64(0), int64(100), ""
	round := func(c *Compactor) int64 {
		revision += 50
		txn := c.Claim()
		r := &clientv3.TxnResponse{Header: &pb.ResponseHeader{Revision: revision}}
		if want := txn.If.GetCompare().GetVersion(); want == version {
			r.Succeeded = true
			version++
			written = string(txn.Then[0].ValueBytes())
		} else {
			kv := &mvccpb.KeyValue{Version: version, Value: []byte(written)}
			r.Responses = []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{kv}}}}}
		}
		return c.Answered(r)
	}
	a, b := &Compactor{Key: CompactKey}, &Compactor{Key: CompactKey}
	var got []int64
	for range 3 {
		got = append(got, round(a), round(b))
	}
	// Nothing in the first round; then what the one that comes first saw in its last.
	want := []int64{0, 0, 150, 0, 250, 0}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("compacted at %v, want %v", got, want)
		}
	}
}
