package ops

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// healthy is a write that nothing stops; tests change one thing.
func healthy() WriteFacts {
	m := WriteMember{ID: 0x8e9e05c52164694d, Name: "m1", Leads: true, Version: explainedVersion, Source: "status",
		DBSize: new(int64(1000)), Quota: new(int64(2000)), Committed: new(uint64(9000)), Applied: new(uint64(9000)), HasLeader: new(true)}
	return WriteFacts{Now: time.Unix(1_790_000_000, 0), Write: WriteRequest{Key: "key", Value: 100}, Members: []WriteMember{m}, Voters: 3, Alive: 3,
		AlarmsKnown: true, Who: WriteUser{AuthOn: new(false)}}
}

func TestJudgeWriteOnRecordedFacts(t *testing.T) {
	t.Parallel()
	doubtful := map[string]struct{}{"nobody, alarms unknown": {}, "lease not there, rights unknown": {}}
	for name, c := range map[string]struct {
		change           func(*WriteFacts, *WriteMember)
		verdict, stopsAt string
	}{
		"nothing stops it":  {func(*WriteFacts, *WriteMember) {}, WriteAccepted, ""},
		"gap of 5000":       {func(_ *WriteFacts, m *WriteMember) { *m.Applied = 4000 }, WriteAccepted, ""},
		"gap of 5001":       {func(_ *WriteFacts, m *WriteMember) { *m.Applied = 3999 }, WriteRefused, "apply_gap"},
		"applied above":     {func(_ *WriteFacts, m *WriteMember) { *m.Applied = 9001 }, WriteAccepted, ""},
		"quota to the byte": {func(_ *WriteFacts, m *WriteMember) { *m.DBSize = 2000 - 359 - 1 }, WriteAccepted, ""},
		"quota met":         {func(_ *WriteFacts, m *WriteMember) { *m.DBSize = 2000 - 359 }, WriteRefused, "quota"},
		"quota disabled":    {func(_ *WriteFacts, m *WriteMember) { *m.Quota, *m.DBSize = cluster.QuotaDisabled, 1<<40 }, WriteAccepted, ""},
		"quota unknown":     {func(_ *WriteFacts, m *WriteMember) { m.Quota = nil }, WriteUnknown, ""},
		"quota before gap":  {func(_ *WriteFacts, m *WriteMember) { *m.Applied, *m.DBSize = 0, 2000 }, WriteRefused, "quota"},
		"gap before token": {func(f *WriteFacts, m *WriteMember) {
			*m.Applied, m.Credential, f.Who.AuthOn = 0, credentialInvalid, new(true)
		}, WriteRefused, "apply_gap"},
		"token before size": {func(f *WriteFacts, m *WriteMember) {
			m.Credential, f.Who.AuthOn, f.Write.MaxRequest = credentialInvalid, new(true), 10
		}, WriteRefused, "token"},
		"old token":         {func(f *WriteFacts, m *WriteMember) { m.Credential, f.Who.AuthOn = credentialOld, new(true) }, WriteRefused, "permission"},
		"no leader":         {func(_ *WriteFacts, m *WriteMember) { *m.HasLeader = false }, WriteRefused, "propose"},
		"no leader, wanted": {func(f *WriteFacts, m *WriteMember) { *m.HasLeader, f.Write.RequireLeader = false, true }, WriteRefused, "require_leader"},
		"leader silent": {func(f *WriteFacts, m *WriteMember) {
			m.Leads, m.Leader = false, 2
			f.Members = append(f.Members, WriteMember{ID: 2, Name: "m2", Leads: true, Err: fault.New(fault.Unavailable, "no answer")})
		}, WriteUnknown, ""},
		"leader refuses kvd": {func(f *WriteFacts, m *WriteMember) {
			m.Leads, m.Leader = false, 2
			f.Members = append(f.Members, WriteMember{ID: 2, Name: "m2", Leads: true, Err: fault.New(fault.Denied, "no user")})
		}, WriteAccepted, ""},
		"leader not named, one silent": {func(f *WriteFacts, m *WriteMember) {
			m.Leads, m.Source = false, "metrics"
			f.Members = append(f.Members, WriteMember{Endpoint: "m2:2379", Err: fault.New(fault.Unavailable, "no answer")})
		}, WriteUnknown, ""},
		"follower silent": {func(f *WriteFacts, _ *WriteMember) {
			f.Members = append(f.Members, WriteMember{ID: 2, Name: "m2", Err: fault.New(fault.Unavailable, "no answer")})
		}, WriteAccepted, ""},
		"nobody, alarms unknown": {func(f *WriteFacts, m *WriteMember) {
			f.AlarmsKnown, f.Who.AuthOn, m.Credential = false, new(true), credentialNone
		}, WriteRefused, "permission"},
		"lease not there, rights unknown": {func(f *WriteFacts, m *WriteMember) {
			f.Who.AuthOn, m.Credential, f.Write.Lease, f.LeaseExists = new(true), credentialGood, 7, new(false)
		}, WriteRefused, "store"},
		"voters out of sight": {func(f *WriteFacts, _ *WriteMember) { f.Alive = 1 }, WriteUnknown, ""},
		"defragmenting":       {func(_ *WriteFacts, m *WriteMember) { m.Defrags = true }, WriteUnknown, ""},
		"defragmenting, full": {func(_ *WriteFacts, m *WriteMember) { m.Defrags, *m.DBSize = true, 2000 }, WriteRefused, "quota"},
		"alarms unknown":      {func(f *WriteFacts, _ *WriteMember) { f.AlarmsKnown = false }, WriteUnknown, ""},
		"CORRUPT and NOSPACE": {func(f *WriteFacts, _ *WriteMember) {
			f.Alarms = []cluster.Alarm{{Type: cluster.AlarmNoSpace}, {Type: cluster.AlarmCorrupt}}
		}, WriteRefused, "corrupt_alarm"},
		"NOSPACE before permission": {func(f *WriteFacts, m *WriteMember) {
			f.Alarms, f.Who.AuthOn, m.Credential = []cluster.Alarm{{Type: cluster.AlarmNoSpace}}, new(true), credentialNone
		}, WriteRefused, "nospace_alarm"},
		"learner": {func(_ *WriteFacts, m *WriteMember) { m.Learner = true }, WriteRefused, "learner"},
		"silent":  {func(_ *WriteFacts, m *WriteMember) { m.Source = "" }, WriteUnreachable, ""},
		"lease of somebody else": {func(f *WriteFacts, m *WriteMember) {
			f.Who.AuthOn, m.Credential, f.Who.Rights = new(true), credentialGood, &UserRights{Exists: true, Write: []KeyRange{{"k", "l"}}}
			f.Write.Lease, f.LeaseExists, f.LeaseKeys = 7, new(true), []string{"k1", "other"}
		}, WriteRefused, "permission"},
		"lease not there": {func(f *WriteFacts, _ *WriteMember) { f.Write.Lease, f.LeaseExists = 7, new(false) }, WriteRefused, "store"},
	} {
		f := healthy()
		c.change(&f, &f.Members[0])
		v := JudgeWrite(f, f.Members[0])
		if v.Verdict != c.verdict || v.StopsAt != c.stopsAt {
			t.Errorf("%s: %s at %q (%s), want %s at %q", name, v.Verdict, v.StopsAt, v.Why, c.verdict, c.stopsAt)
		}
		// What comes before and is not known makes the check the latest, and the words uncertain.
		_, doubt := doubtful[name]
		if c.verdict == WriteRefused && (v.Error == "") != doubt || v.AtTheLatest != doubt || doubt && v.Why == "" {
			t.Errorf("%s: at the latest: %t, %q, %s", name, v.AtTheLatest, v.Error, v.Why)
		}
		if c.verdict == WriteUnknown && v.Why == "" {
			t.Errorf("%s: nothing said of it: %+v", name, v)
		}
	}
}

// The sizes are those of etcd's own messages.
func TestWriteSizesAreThoseOfTheMessages(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	for _, c := range []struct {
		key      string
		value    int
		lease    uint64
		member   uint64
		user     string
		revision uint64
	}{
		{"k", 0, 0, 1, "", 0}, {"k", 1, 0, 0xffff, "", 0}, {"key", 127, 5, 0x8e9e05c52164694d, "root", 1},
		{strings.Repeat("k", 200), 128, 0, 0x10, "u", 127}, {"\xff", 1 << 14, 1 << 63, 0xabc, strings.Repeat("u", 130), 128}, {"k", 1 << 21, 0, 9, "u", 1 << 40},
	} {
		put := &pb.PutRequest{Key: []byte(c.key), Value: make([]byte, c.value), Lease: int64(c.lease)}
		id := uint64(uint16(c.member))<<48 | (uint64(now.UnixMilli())&(1<<40-1))<<8
		req := &pb.InternalRaftRequest{Header: &pb.RequestHeader{ID: id, Username: c.user, AuthRevision: c.revision}, Put: put}
		w := WriteRequest{Key: c.key, Value: int64(c.value), Lease: c.lease}
		if got, want := w.messageBytes(), int64(proto.Size(put)); got != want {
			t.Errorf("%d bytes under %d: message of %d, want %d", c.value, len(c.key), got, want)
		}
		if got, want := w.requestBytes(c.member, now, c.user, c.revision), int64(proto.Size(req)); got != want {
			t.Errorf("%d bytes under %d: request of %d, want %d", c.value, len(c.key), got, want)
		}
	}
}

func TestKeyRangeHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to, key string
		want          bool
	}{
		{"a", "", "a", true}, {"a", "", "ab", false}, {"a", "b", "a", true}, {"a", "b", "a\xff", true}, {"a", "b", "b", false}, {"a", "b", "Z", false},
		{"m", "\x00", "z", true}, {"m", "\x00", "l", false}, {"\x00", "\x00", "\x00", true}, {"\x00", "\x00", "\xff\xff", true},
	} {
		if got := (KeyRange{c.from, c.to}).Holds(c.key); got != c.want {
			t.Errorf("[%q, %q) holds %q: %t", c.from, c.to, c.key, got)
		}
	}
}

// That the servers' limit is assumed is said where another one would give another
// verdict, and nowhere else.
func TestLimitNote(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, limit, quota int64
		want                string
	}{
		{2 << 20, 0, 1 << 40, ""}, // the client does not even send it
		{1600 << 10, 0, 1 << 40, "with a larger one"}, {1600 << 10, 2 << 20, 1 << 40, ""}, {1600 << 10, 0, 1000, ""},
		{100 << 10, 0, 1 << 40, "with one below"}, {100 << 10, 1 << 20, 1 << 40, ""}, {100, 0, 1 << 40, ""},
	} {
		f := healthy()
		f.Write.Value, f.Write.MaxRequest, f.Members[0].Quota = c.value, c.limit, &c.quota
		got := limitNote(f.Write, JudgeWrite(f, f.Members[0]))
		if (len(got) == 1) != (c.want != "") || len(got) == 1 && !strings.Contains(got[0], c.want) {
			t.Errorf("%d bytes, limit %d, quota %d: %q, want %q", c.value, c.limit, c.quota, got, c.want)
		}
	}
}
