package diagnose_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/server/servertest"
)

// edit changes the record of a key's latest revision in a stopped member's database;
// a nil result removes it.
func edit(t *testing.T, path, key string, change func(*mvccpb.KeyValue) *mvccpb.KeyValue) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("key"))
		cur := b.Cursor()
		for k, v := cur.Last(); k != nil; k, v = cur.Prev() {
			var kv mvccpb.KeyValue
			if err := proto.Unmarshal(v, &kv); err != nil {
				return err
			}
			if string(kv.Key) != key {
				continue
			}
			out := change(&kv)
			if out == nil {
				return b.Delete(k)
			}
			raw, err := proto.Marshal(out)
			if err != nil {
				return err
			}
			return b.Put(k, raw)
		}
		return fmt.Errorf("no record of %s", key)
	})
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
}

// How a record can be other than it was.
func otherValue(kv *mvccpb.KeyValue) *mvccpb.KeyValue   { kv.Value[0] ^= 1; return kv }
func noRecord(*mvccpb.KeyValue) *mvccpb.KeyValue        { return nil }
func otherVersion(kv *mvccpb.KeyValue) *mvccpb.KeyValue { kv.Version += 3; return kv }

// damage is a record that a member holds otherwise than the others.
type damage struct {
	member int
	key    string
	change func(*mvccpb.KeyValue) *mvccpb.KeyValue
}

// altered is a cluster some of whose members hold other data than the rest: changed
// while they were stopped.
func altered(t *testing.T, s shape, all []damage) *servertest.Cluster {
	t.Helper()
	c := s.start(t)
	put(t, c.Client(t), "/registry/pods/a/p", 200, 50, 100)
	c.CheckEqualContent(t)
	settleDisk(t)
	stopAll(t, c)
	for _, d := range all {
		edit(t, c.DBPath(d.member), "/registry/pods/a/"+d.key, d.change)
	}
	return c
}

// leads waits until a member leads, and hands it the leadership.
func leads(t *testing.T, c *servertest.Cluster, want int) {
	t.Helper()
	waitFor(t, func() bool {
		l := c.Leader(t)
		if l == want {
			return true
		}
		ctx := servertest.Context(t, 10*time.Second)
		s, err := c.Client(t).Status(ctx, c.Endpoint(want))
		if err == nil {
			_, _ = c.Client(t, c.Endpoint(l)).MoveLeader(ctx, s.Header.MemberId) // it is looked at again
		}
		return false
	})
}

// Case C68: members differ. Which, and which keys; without --hash nothing shows it.
// What is only behind differs from nobody.
func TestCaseMembersDiffer(t *testing.T) {
	t.Parallel()
	for i, p := range []struct {
		name    string
		shape   shape
		damages []damage
		lead    int // who leads
		subject string
		keys    map[string]string
		says    []string
		files   []string // what the directories tell beside it
		slow    bool
	}{
		{name: "a follower of three", shape: shape{members: 3}, damages: []damage{{1, "p1", otherValue}, {1, "p2", noRecord}, {1, "p3", otherVersion}}, subject: "m2",
			keys: map[string]string{"p1": "other value", "p3": "version 7 and 4", "p2": "version 3 and 4"}, files: []string{"KVD-CORRUPT-005 critical"}},
		{name: "the leader of three, with certificates and users", shape: shape{members: 3, mtls: true, auth: true}, damages: []damage{{0, "p7", noRecord}}, lead: 0, subject: "m1",
			keys: map[string]string{"p7": "version 3 and 4"}, files: []string{"KVD-CORRUPT-005 critical"}, slow: true},
		{name: "two of five in the same way", shape: shape{members: 5}, damages: []damage{{3, "p1", otherValue}, {4, "p1", otherValue}}, subject: "m4 and m5",
			keys: map[string]string{"p1": "other value"}, slow: true},
		{name: "two of three, each otherwise", shape: shape{members: 3}, damages: []damage{{1, "p1", otherValue}, {2, "p2", otherValue}}, subject: "m1, m2 and m3",
			says: []string{"three different hashes", "no majority, do not guess"}, slow: true},
		{name: "one of three, of etcd 3.6", shape: shape{members: 3, version: "3.6"}, damages: []damage{{2, "p9", otherVersion}}, subject: "m3", keys: map[string]string{"p9": "version 7 and 4"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := altered(t, p.shape, p.damages)
			dirs := []string{}
			for i := range c.Len() {
				dirs = append(dirs, c.DataDir(i))
			}
			belongs(t, lookAt(t, dirs...), append(p.files, "KVD-CORRUPT-002 critical")...)
			startsAgain(t, c, "they start all the same")
			leads(t, c, p.lead)
			client := connect(t, c)
			belongs(t, look(t, client))
			r := look(t, client, withHash)
			belongs(t, r, "KVD-CORRUPT-002 critical")
			f := finding(t, r, "KVD-CORRUPT-002")
			if f.Subject != p.subject {
				t.Errorf("subject %q, want %q", f.Subject, p.subject)
			}
			for key, what := range p.keys {
				mentions(t, evidence(t, f, "key /registry/pods/a/"+key).Text, what)
			}
			mentions(t, f.Summary, p.says...)
			if i == 0 {
				shows(t, r, "KVD-CORRUPT-002")
			}
		})
	}
}

// Case C70: the alarm. Whom it names, and who it is by kvd's own comparison.
func TestCaseCorruptAlarm(t *testing.T) {
	t.Parallel()
	first := func(i int) []string { // whoever checks accuses another: only that one is to check
		return map[int][]string{0: {"--corrupt-check-time=1s"}}[i]
	}
	for i, p := range []struct {
		name    string
		shape   shape
		damages []damage
		lead    int
		planted int // whom a request names, -1: etcd finds it out
		want    []string
		subject string
		says    []string
		slow    bool
	}{
		{name: "planted, and naming another", shape: shape{members: 3}, damages: []damage{{1, "p1", otherValue}}, planted: 0, subject: "m1",
			want: []string{"KVD-CORRUPT-001 critical", "KVD-CORRUPT-002 critical"}, says: []string{"by kvd's own comparison it is m2"}, slow: true},
		{name: "planted, and nobody differs", shape: shape{members: 1, auth: true}, planted: 0, subject: "m1", want: []string{"KVD-CORRUPT-001 critical"}},
		{name: "found by etcd itself, a follower", shape: shape{members: 3, each: first}, damages: []damage{{2, "p1", otherValue}}, planted: -1, subject: "m3",
			want: []string{"KVD-CORRUPT-001 critical", "KVD-CORRUPT-002 critical"}, slow: true},
		{name: "found by etcd itself, the leader, with certificates", shape: shape{members: 3, mtls: true, each: first}, damages: []damage{{0, "p1", otherValue}}, lead: 0, planted: -1,
			says: []string{"by kvd's own comparison it is m1"}, want: []string{"KVD-CORRUPT-001 critical", "KVD-CORRUPT-002 critical"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := altered(t, p.shape, p.damages)
			startsAgain(t, c, "they start all the same")
			leads(t, c, p.lead)
			if p.planted >= 0 {
				raise(t, c, p.planted)
			}
			client := connect(t, c)
			waitFor(t, func() bool { v, err := client.View(t.Context()); return err == nil && len(v.Alarms) > 0 })
			r := look(t, client, withHash)
			belongs(t, r, p.want...)
			f := finding(t, r, "KVD-CORRUPT-001")
			if f.Subject != p.subject && p.subject != "" {
				t.Errorf("subject %q, want %q", f.Subject, p.subject)
			}
			mentions(t, f.Summary, append(p.says, "CORRUPT is raised for "+p.subject)...)
			for path, code := range map[string]string{"/readyz": "503", "/health": "503", "/livez": "200"} {
				if e := evidence(t, f, path); e.Text != code {
					t.Errorf("%s: %s", path, e.Text)
				}
			}
			if strings.Contains(f.Remedy[0], "disarm") {
				t.Errorf("disarming comes first: %q", f.Remedy)
			}
			if i == 0 {
				shows(t, r, "KVD-CORRUPT-001")
				if len(f.Remedy) != 3 || f.Remedy[1] != "kvd member replace m2" {
					t.Errorf("remedy %q", f.Remedy)
				}
			}
			stopAll(t, c)
			belongs(t, lookAt(t, c.DataDir(0)), "KVD-CORRUPT-001 critical") // it is stored, and a start raises it again
		})
	}
}

// raise activates a CORRUPT alarm of a member.
func raise(t *testing.T, c *servertest.Cluster, member int) {
	t.Helper()
	s, err := c.Client(t).Status(t.Context(), c.Endpoint(member))
	if err != nil {
		t.Fatal(err)
	}
	_, err = etcdserverpb.NewMaintenanceClient(c.Client(t).ActiveConnection()).Alarm(t.Context(),
		&etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: s.Header.MemberId, Alarm: etcdserverpb.AlarmType_CORRUPT})
	if err != nil {
		t.Fatal(err)
	}
}
