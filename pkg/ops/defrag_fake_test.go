package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
)

// fakeMember is what a test says about one member.
type fakeMember struct {
	name          string
	size, inUse   int64 // MiB
	lag           uint64
	learner, down bool
}

// fakeCluster plays a cluster of which every answer is known. Members have the
// IDs 1, 2, 3, …
type fakeCluster struct {
	view  cluster.View
	calls []string

	removed    uint64                          // a member that views do not show any more
	defragment func(id uint64) error           // what Defragment answers; nil: it works
	metrics    func(id uint64) (string, error) // what /metrics serves; nil: nothing in flight
	status     func(id uint64) error           // why a status fails; nil: it does not
}

const fakeHead = 100000

func fakeView(leader uint64, members ...fakeMember) cluster.View {
	v := cluster.View{At: time.Now(), Leader: leader}
	for i, f := range members {
		m := cluster.Member{ID: uint64(i + 1), Name: f.name, Endpoint: "http://192.0.2.1:2379", ClientURLs: []string{"http://192.0.2.1:2379"}, Learner: f.learner}
		if f.down {
			m.Err = &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseConnectionRefused, Msg: "nobody listens"}
		} else {
			m.Status = &cluster.Status{Version: "3.7.3", DBSize: f.size << 20, DBInUse: f.inUse << 20, Quota: 64 << 20, QuotaKnown: true,
				RaftTerm: 4, RaftIndex: fakeHead, AppliedIndex: fakeHead - f.lag, Leader: leader, Learner: f.learner}
		}
		v.Members = append(v.Members, m)
	}
	return v
}

func (f *fakeCluster) View(context.Context) (cluster.View, error) {
	v := f.view
	v.Members = slices.DeleteFunc(slices.Clone(v.Members), func(m cluster.Member) bool { return m.ID == f.removed })
	return v, nil
}

func (f *fakeCluster) member(id uint64) *cluster.Member { return &f.view.Members[id-1] }

func (f *fakeCluster) Status(_ context.Context, id uint64) (cluster.Status, error) {
	if f.status != nil {
		if err := f.status(id); err != nil {
			return cluster.Status{}, err
		}
	}
	return *f.member(id).Status, nil
}

func (f *fakeCluster) Defragment(_ context.Context, id uint64) error {
	f.calls = append(f.calls, fmt.Sprintf("defragment %d", id))
	if f.defragment != nil {
		if err := f.defragment(id); err != nil {
			return err
		}
	}
	f.shrink(id)
	return nil
}

func (f *fakeCluster) shrink(id uint64) {
	s := *f.member(id).Status
	s.DBSize = s.DBInUse
	f.member(id).Status = &s
}

func (f *fakeCluster) MoveLeader(_ context.Context, from, to uint64) error {
	f.calls = append(f.calls, fmt.Sprintf("move %d to %d", from, to))
	f.view.Leader = to
	for i := range f.view.Members {
		if s := f.view.Members[i].Status; s != nil {
			c := *s
			c.Leader = to
			f.view.Members[i].Status = &c
		}
	}
	return nil
}

func (f *fakeCluster) Metrics(_ context.Context, m cluster.Member) (*metrics.Sample, error) {
	text := defragMetrics(0, 0, 0, 1)
	if f.metrics != nil {
		var err error
		if text, err = f.metrics(m.ID); err != nil {
			return nil, err
		}
	}
	return metrics.Parse(strings.NewReader(text), time.Now())
}

// defragMetrics is the part of /metrics that is about defragmentation.
func defragMetrics(inflight, count int, seconds float64, start int) string {
	return fmt.Sprintf("# TYPE etcd_disk_defrag_inflight gauge\netcd_disk_defrag_inflight %d\n"+
		"# TYPE etcd_disk_backend_defrag_duration_seconds histogram\netcd_disk_backend_defrag_duration_seconds_bucket{le=\"+Inf\"} %d\n"+
		"etcd_disk_backend_defrag_duration_seconds_sum %g\netcd_disk_backend_defrag_duration_seconds_count %d\n"+
		"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %d\n", inflight, count, seconds, count, start)
}

func errUnreachable() error {
	return &fault.Error{Kind: fault.Unavailable, Cause: "metrics_unreachable", Msg: "no answer"}
}

func errDeadline() error {
	return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseDeadline, Msg: "no answer in time"}
}

// fast is a plan's options without pauses.
func fast() DefragOptions {
	o := DefaultDefragOptions()
	o.Settle = 0
	return o
}

func three() []fakeMember {
	return []fakeMember{{name: "c", size: 40, inUse: 10}, {name: "a", size: 40, inUse: 10}, {name: "b", size: 40, inUse: 10}}
}

func errorsIs(t *testing.T, err error, kind fault.Kind, cause string) {
	t.Helper()
	if fault.KindOf(err) != kind || fault.CauseOf(err) != cause {
		t.Errorf("got kind %q, cause %q (%v), want %q, %q", fault.KindOf(err), fault.CauseOf(err), err, kind, cause)
	}
	var e *fault.Error
	if err != nil && !errors.As(err, &e) {
		t.Errorf("%v is no *fault.Error", err)
	}
}
