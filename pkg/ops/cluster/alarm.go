package cluster

import (
	"regexp"
	"strconv"
)

// What the errors of a member's status look like that are alarms: the protobuf
// text form of AlarmMember. gogo's generator (etcd up to 3.6) writes
// "memberID:10501334649042878790 alarm:NOSPACE ", Google's (3.7) one or two
// spaces between the fields, at random for each binary, just so that nobody
// relies on it. The zero value of a field is left out by both.
var (
	alarmType   = regexp.MustCompile(`(?:^|\s)alarm:\s*([A-Z_][A-Z0-9_]*|\d+)`)
	alarmMember = regexp.MustCompile(`(?:^|\s)memberID:\s*(\d+)`)
)

// The types of alarms.
const (
	AlarmNoSpace = "NOSPACE"
	AlarmCorrupt = "CORRUPT"
)

// parseAlarm reads one line of Status.Errors. It is false for lines that are
// no alarm ("etcdserver: no leader").
func parseAlarm(line string) (Alarm, bool) {
	t := alarmType.FindStringSubmatch(line)
	if t == nil || t[1] == "NONE" || t[1] == "0" {
		return Alarm{}, false
	}
	a := Alarm{Type: t[1]}
	switch a.Type { // AlarmType in rpc.proto, of a server that knows a type by number only
	case "1":
		a.Type = AlarmNoSpace
	case "2":
		a.Type = AlarmCorrupt
	}
	if m := alarmMember.FindStringSubmatch(line); m != nil {
		id, err := strconv.ParseUint(m[1], 10, 64)
		if err != nil {
			return Alarm{}, false
		}
		a.MemberID = id
	}
	return a, true
}
