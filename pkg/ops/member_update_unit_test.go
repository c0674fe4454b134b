package ops

import (
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// Where a server would make a voter in name of a learner, its peer URLs stay; each member
// of the cluster makes the change by itself, so that one old one is enough.
func TestUpdateOfALearner(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		learner bool
		version string // of one of the voters
		refused bool
	}{
		{true, "3.6.11", true}, {true, "3.5.30", true}, {true, "3.4.44", true}, {true, "", true}, {true, "unknown", true},
		{true, "3.7.3", false}, {true, "3.7.0", false}, {true, "3.6.12", false}, {true, "3.5.31", false},
		{false, "3.6.11", false},
	} {
		v := fakeView(1, fakeMember{name: "a"}, fakeMember{name: "b"}, fakeMember{name: "c", learner: tc.learner})
		v.Members[1].Status.Version = tc.version
		o := DefaultUpdateOptions()
		o.Member, o.PeerURLs = "c", []string{"http://192.0.2.9:2380"}
		_, err := PlanMemberUpdate(nil, v, o, progress.Discard)
		if refused := fault.CauseOf(err) == "learner_becomes_voter"; refused != tc.refused || err != nil && !tc.refused {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
