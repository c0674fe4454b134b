package ops

import (
	"strings"
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

// A URL without an address to connect to is refused: the others would connect to themselves.
func TestUpdateToAnAddressToListenAt(t *testing.T) {
	t.Parallel()
	v := fakeView(1, fakeMember{name: "a"}, fakeMember{name: "b"}, fakeMember{name: "c"})
	for url, refused := range map[string]bool{"http://:2380": true, "http://0.0.0.0:2380": true, "http://[::]:2380": true, "http://[::1]:2380": false, "http://c:2380": false} {
		o := DefaultUpdateOptions()
		o.Member, o.PeerURLs = "c", []string{url}
		if _, err := PlanMemberUpdate(nil, v, o, progress.Discard); (fault.KindOf(err) == fault.Usage) != refused || err != nil && !refused {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A member that has never started has no data, and reads the flags of a first start.
func TestUpdateOfAMemberThatNeverStarted(t *testing.T) {
	t.Parallel()
	v := fakeView(1, fakeMember{name: "a"}, fakeMember{name: "b"}, fakeMember{name: "c"}, fakeMember{learner: true, down: true})
	v.Members[3].ClientURLs, v.Members[3].PeerURLs = nil, []string{"http://192.0.2.8:2380"}
	o := DefaultUpdateOptions()
	o.Member, o.PeerURLs = "4", []string{"http://192.0.2.9:2380"}
	p, err := PlanMemberUpdate(nil, v, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(p.Notes, "\n")
	if !strings.Contains(notes, "NAME=http://192.0.2.9:2380") || strings.Contains(notes, "192.0.2.8") || strings.Contains(notes, "its data") {
		t.Error(notes)
	}
}

func TestSameSpot(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"http://localhost:2380", "http://127.0.0.1:2380", true},
		{"http://[::1]:2380", "https://localhost:2380", true},
		{"http://[0:0::1]:2380", "http://[::1]:2380", true},
		{"http://ETCD-1:2380", "http://etcd-1:2380", true},
		{"http://127.0.0.1:2380", "http://127.0.0.1:2381", false},
		{"http://127.0.0.1:2380", "http://127.0.0.2:2380", false},
		{"http://etcd-1:2380", "http://etcd-2:2380", false},
	} {
		if got := sameSpot(t.Context(), tc.a, tc.b); got != tc.same {
			t.Errorf("%s and %s: %v", tc.a, tc.b, got)
		}
	}
}
