package cli

import (
	"bytes"
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
)

// A rescue from NOSPACE is refused while CORRUPT is raised: nobody is sent there.
func TestAlarmLines(t *testing.T) {
	noSpace := cluster.Alarm{MemberName: "m1", Type: cluster.AlarmNoSpace, InMemberList: true}
	corrupt := cluster.Alarm{MemberName: "m2", Type: cluster.AlarmCorrupt, InMemberList: true}
	for name, c := range map[string]struct {
		alarms []cluster.Alarm
		want   []string
	}{
		"NOSPACE": {[]cluster.Alarm{noSpace}, []string{"alarm NOSPACE of m1: every member is read-only: see `kvd quota`, then `kvd alarm recover`"}},
		"both": {[]cluster.Alarm{noSpace, corrupt}, []string{
			"alarm NOSPACE of m1: every member is read-only: `kvd alarm recover` goes once CORRUPT is mended and disarmed",
			"alarm CORRUPT of m2: members hold different data: take a snapshot of the majority before anything else"}},
	} {
		var b bytes.Buffer
		drawAlarmLines(&b, cluster.View{Alarms: c.alarms})
		if got := strings.Split(strings.TrimSpace(b.String()), "\n"); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
