package drill

import (
	"fmt"

	"kvd/pkg/ops/cluster"
)

// refusedMissing lists the members that took a write, or refused it for another
// reason than want of space.
func refusedMissing(attempts []Attempt) []string {
	var out []string
	for _, a := range attempts {
		switch {
		case a.Revision != 0:
			out = append(out, fmt.Sprintf("%s took a write in spite of the alarm, at revision %d", a.Member, a.Revision))
		case a.Cause != cluster.CauseNoSpace:
			out = append(out, fmt.Sprintf("%s refused a write for another reason: %s", a.Member, a.Error))
		}
	}
	return out
}

func compactorMissing(err string) []string {
	if err == "" {
		return []string{"the marker of Kubernetes' compactor could be written in spite of the alarm"}
	}
	return nil
}

// alarmMissing lists the members that do not report NOSPACE.
func alarmMissing(v cluster.View) []string {
	var out []string
	for _, m := range v.Members {
		seen := false
		if m.Status != nil {
			for _, a := range m.Status.Alarms {
				seen = seen || a.Type == cluster.AlarmNoSpace
			}
		}
		if !seen {
			out = append(out, m.Name+" does not report the NOSPACE alarm")
		}
	}
	return out
}

// writtenMissing lists the members through which a write did not succeed.
func writtenMissing(attempts []Attempt) []string {
	var out []string
	for _, a := range attempts {
		if a.Revision == 0 {
			out = append(out, fmt.Sprintf("no write succeeds through %s: %s", a.Member, a.Error))
		}
	}
	return out
}

// alarmsLeft lists the alarms that are raised.
func alarmsLeft(alarms []cluster.Alarm) []string {
	var out []string
	for _, a := range alarms {
		out = append(out, fmt.Sprintf("%s of %s is still raised", a.Type, a.MemberName))
	}
	return out
}
