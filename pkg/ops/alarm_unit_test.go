package ops

import (
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// Who raised the alarm and is silent may be full or not: that is not said to come
// back, and what to do is another thing than where a file is too large.
func TestComesBack(t *testing.T) {
	full := fakeMember{name: "b", size: 64, inUse: 10}
	silent := fakeMember{name: "a", down: true}
	small := fakeMember{name: "c", size: 10, inUse: 10}
	learner := fakeMember{name: "l", size: 64, inUse: 10, learner: true}
	for _, tc := range []struct {
		name    string
		members []fakeMember
		cause   string
		hint    string
	}{
		{"all have room", []fakeMember{small, small}, "", ""},
		{"another is silent", []fakeMember{small, silent}, "", ""},
		{"one is full", []fakeMember{small, full}, "would_come_back", "`kvd alarm recover`"},
		{"the one that raised it is silent", []fakeMember{silent, small}, "size_unknown", "bring it back first"},
		{"a learner is full, which no rescue mends", []fakeMember{small, small, learner}, "would_come_back", "`kvd alarm disarm --force`"},
		{"a learner and a voter are full", []fakeMember{small, full, learner}, "would_come_back", "`kvd alarm recover`"},
		{"it is silent and another is full", []fakeMember{silent, full}, "would_come_back", "`kvd alarm recover`"},
	} {
		v := fakeView(2, tc.members...)
		err := comesBack(v, cluster.Alarm{MemberID: 1, MemberName: "a", Type: cluster.AlarmNoSpace, InMemberList: true})
		if fault.CauseOf(err) != tc.cause || !strings.HasPrefix(fault.HintOf(err), tc.hint) {
			t.Errorf("%s: cause %q, hint %q (%v)", tc.name, fault.CauseOf(err), fault.HintOf(err), err)
		}
	}
}
