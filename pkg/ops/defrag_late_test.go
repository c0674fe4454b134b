package ops

import (
	"context"
	"slices"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/progress"
)

// Under NOSPACE a member may tell sizes of before a compaction. In a rescue it is
// passed over only when it tells the same after the sizes have settled, which is
// waited for once.
func TestLateStepsDoNotTrustOldSizes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		nospace bool
		inUse   int64 // MiB that the follower b really uses of its 40
		waits   int
		calls   []string
	}{
		{"old sizes", true, 4, 1, []string{"defragment 2"}},
		{"true sizes", true, 40, 1, nil},
		{"no alarm, so every commit counts", false, 4, 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &fakeCluster{view: fakeView(1, fakeMember{name: "a", size: 40, inUse: 40}, fakeMember{name: "b", size: 40, inUse: 40})}
			if tc.nospace {
				f.view.Alarms = []cluster.Alarm{{MemberID: 1, Type: cluster.AlarmNoSpace, InMemberList: true}}
			}
			d := newDefragmentation(f, fast(), progress.Discard)
			d.late = true
			waits := 0
			d.settleSizes = func(ctx context.Context) (cluster.View, error) {
				waits++
				s := *f.member(2).Status
				s.DBInUse = tc.inUse << 20
				f.member(2).Status = &s
				return f.View(ctx)
			}
			p, err := d.plan(t.Context(), f.view)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), nil, progress.Discard)
			if err != nil {
				t.Errorf("%v, steps %+v", err, r.Steps)
			}
			if waits != tc.waits || !slices.Equal(f.calls, tc.calls) {
				t.Errorf("waited %d times, did %v; want %d, %v", waits, f.calls, tc.waits, tc.calls)
			}
		})
	}
}
