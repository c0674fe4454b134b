package wal

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// logged is a log that a test writes entry by entry, with etcd's own code.
type logged struct {
	t    *testing.T
	dir  string
	w    *etcdwal.WAL
	term uint64
	next uint64
}

func newLog(t *testing.T) *logged {
	t.Helper()
	l := &logged{t: t, dir: filepath.Join(t.TempDir(), "wal"), term: 2, next: 1}
	w, err := etcdwal.Create(nil, l.dir, []byte{})
	if err != nil {
		t.Fatal(err)
	}
	w.SetUnsafeNoFsync()
	l.w = w
	t.Cleanup(func() { _ = w.Close() })
	return l
}

// add writes requests, each an entry, with the commit index that the member knew.
func (l *logged) add(commit uint64, requests ...*pb.InternalRaftRequest) {
	l.t.Helper()
	ents := make([]*raftpb.Entry, 0, len(requests))
	for _, r := range requests {
		data, err := proto.Marshal(r)
		if err != nil {
			l.t.Fatal(err)
		}
		ents = append(ents, &raftpb.Entry{Index: new(l.next), Term: new(l.term), Data: data})
		l.next++
	}
	if err := l.w.Save(&raftpb.HardState{Term: new(l.term), Vote: new(uint64(1)), Commit: new(commit)}, ents); err != nil {
		l.t.Fatal(err)
	}
	if err := l.w.Sync(); err != nil {
		l.t.Fatal(err)
	}
}

func put(key, value string, lease int64) *pb.InternalRaftRequest {
	return &pb.InternalRaftRequest{ID: 1, Put: &pb.PutRequest{Key: []byte(key), Value: []byte(value), Lease: lease}}
}

func del(key, end string) *pb.InternalRaftRequest {
	return &pb.InternalRaftRequest{ID: 1, DeleteRange: &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end)}}
}

func grant(id int64) *pb.InternalRaftRequest {
	return &pb.InternalRaftRequest{ID: 1, LeaseGrant: &pb.LeaseGrantRequest{ID: id, TTL: 60}}
}

func revoke(id int64) *pb.InternalRaftRequest {
	return &pb.InternalRaftRequest{ID: 1, LeaseRevoke: &pb.LeaseRevokeRequest{ID: id}}
}

func txn(compare bool, then, otherwise *pb.InternalRaftRequest) *pb.InternalRaftRequest {
	op := func(r *pb.InternalRaftRequest) []*pb.RequestOp {
		switch {
		case r == nil:
			return nil
		case r.Put != nil:
			return []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: r.Put}}}
		case r.Txn != nil:
			return []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: r.Txn}}}
		}
		return []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r.DeleteRange}}}
	}
	t := &pb.TxnRequest{Success: op(then), Failure: op(otherwise)}
	if compare {
		t.Compare = []*pb.Compare{{Key: []byte("c"), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: 1}}}
	}
	return &pb.InternalRaftRequest{ID: 1, Txn: t}
}

func alarm(action pb.AlarmRequest_AlarmAction) *pb.InternalRaftRequest {
	return &pb.InternalRaftRequest{ID: 1, Alarm: &pb.AlarmRequest{Action: action, MemberID: 9, Alarm: pb.AlarmType_NOSPACE}}
}

// dump returns the lines as JSON.
func dump(t *testing.T, dir string, change func(*DumpOptions)) (lines []string, sum DumpSummary, err error) {
	t.Helper()
	o := DefaultDumpOptions()
	if change != nil {
		change(&o)
	}
	sum, err = Dump(t.Context(), dir, o, func(l *Line) error {
		b, err := json.Marshal(l)
		lines = append(lines, string(b))
		return err
	})
	if int64(len(lines)) != sum.Shown {
		t.Errorf("%d lines, %d said", len(lines), sum.Shown)
	}
	return lines, sum, err
}

// indexes are those of lines, with what is in the field given.
func indexes(t *testing.T, lines []string, field func(map[string]any) any) (out []string) {
	t.Helper()
	for _, l := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatal(err)
		}
		s := fmt.Sprint(m["index"])
		if field != nil {
			if v := field(m); v != nil {
				s += fmt.Sprint(":", v)
			}
		}
		out = append(out, s)
	}
	return out
}

func equal(t *testing.T, got []string, want string) {
	t.Helper()
	if s := strings.Join(got, " "); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// What became of each entry is said: those that a later leader replaced, also
// several times over, and those behind the commit index.
func TestDumpStates(t *testing.T) {
	l := newLog(t)
	l.add(0, put("a", "1", 0), put("a", "2", 0), put("a", "3", 0))
	l.term, l.next = 3, 3
	l.add(1, put("a", "3'", 0), put("a", "4'", 0), put("a", "5'", 0))
	l.term, l.next = 4, 5
	l.add(3, put("a", "5''", 0))
	l.add(4, put("a", "6''", 0))
	lines, sum, err := dump(t, l.dir, nil)
	if err != nil || sum.Commit != 4 || sum.Last != 6 || sum.Entries != 8 {
		t.Errorf("%+v, %v", sum, err)
	}
	equal(t, indexes(t, lines, func(m map[string]any) any {
		return fmt.Sprintf("%v:%v %v", m["term"], m["state"], m["replaces"] != nil)
	}),
		"1:2:committed false 2:2:committed false 3:2:overwritten false 3:3:committed true 4:3:committed false 5:3:overwritten false "+
			"5:4:uncommitted true 6:4:uncommitted false")
}

// What concerns a key is found by whatever way it is concerned.
func TestDumpByKey(t *testing.T) {
	l := newLog(t)
	l.add(100,
		grant(7),                            // 1
		put("/a/1", "v", 7),                 // 2
		put("/b/1", "v", 7),                 // 3
		del("/a/0", "/a/2"),                 // 4 a range with it
		del("/a/2", "/a/3"),                 // 5 one without
		del("/", "\x00"),                    // 6 from a key on
		put("/a/1", "v", 7),                 // 7
		revoke(7),                           // 8 held it since 7
		revoke(8),                           // 9 nobody knows
		grant(9),                            // 10
		txn(true, put("/a/1", "v", 9), nil), // 11 perhaps
		revoke(9),                           // 12 perhaps
		txn(true, del("/x", ""), txn(true, nil, del("/a/1", ""))), // 13 nested in the other branch
		grant(10),            // 14
		put("/a/1", "v", 10), // 15
		put("/a/1", "v", 0),  // 16 takes it off
		revoke(10),           // 17 which therefore does not concern it
		del("/a/1", "/a/1"),  // 18 an empty range
		put("/a/11", "v", 0), // 19
	)
	held := func(m map[string]any) any {
		request, _ := m["request"].(map[string]any)
		return request["held"]
	}
	lines, sum, err := dump(t, l.dir, func(o *DumpOptions) { o.Keys = []string{"/a/1"} })
	if err != nil || sum.UnknownLeases != 1 || sum.HeldFull {
		t.Errorf("%+v, %v", sum, err)
	}
	equal(t, indexes(t, lines, held), "2 4 6 7 8:[map[key:/a/1 since_index:7 sure:true]] 11 12:[map[key:/a/1 since_index:11 sure:false]] 13 15 16")
	for _, tc := range []struct {
		name   string
		change func(*DumpOptions)
		want   string
	}{
		{"a prefix", func(o *DumpOptions) { o.Prefixes = []string{"/a/1"}; o.Types = []string{"put", "delete_range"} }, "2 4 6 7 15 16 19"},
		{"a family of types", func(o *DumpOptions) { o.Types = []string{"lease"} }, "1 8 9 10 12 14 17"},
		{"a span of indexes and a type", func(o *DumpOptions) { o.Index = Span{8, 12}; o.Types = []string{"txn"} }, "11"},
		{"an open span", func(o *DumpOptions) { o.Index = Span{From: 18} }, "18 19"},
		{"another term", func(o *DumpOptions) { o.Term = Span{3, 3} }, ""},
		{"size", func(o *DumpOptions) { o.MinBytes = 100 }, ""},
		{"a user", func(o *DumpOptions) { o.User = "alice" }, ""},
		{"two keys", func(o *DumpOptions) {
			o.Keys = []string{"/b/1", "/x"}
			o.Types = []string{"put", "txn", "lease_revoke"}
		}, "3 13"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lines, _, err := dump(t, l.dir, tc.change)
			if err != nil {
				t.Error(err)
			}
			equal(t, indexes(t, lines, nil), tc.want)
		})
	}
}

// What the log shows to have had no effect is said, and what may have had none.
func TestDumpEffects(t *testing.T) {
	l := newLog(t)
	as := func(rev uint64, r *pb.InternalRaftRequest) *pb.InternalRaftRequest {
		r.Header = &pb.RequestHeader{ID: 1, Username: "u", AuthRevision: rev}
		return r
	}
	l.add(100,
		grant(7), put("a", "v", 7), revoke(7),
		put("a", "v", 7), // 4: refused
		revoke(7),        // 5: refused
		grant(7), put("a", "v", 7),
		alarm(pb.AlarmRequest_ACTIVATE),
		put("a", "v", 0),                 // 9: refused
		del("a", ""),                     // 10: taken
		txn(false, put("a", "", 0), nil), // 11: refused
		txn(false, del("a", ""), nil),    // 12: taken
		grant(8),                         // 13: refused
		alarm(pb.AlarmRequest_DEACTIVATE),
		put("a", "v", 0),
		txn(true, put("a", "", 0), nil), // 16: perhaps
		&pb.InternalRaftRequest{ID: 1, Put: &pb.PutRequest{Key: []byte("a"), IgnoreValue: true}}, // 17: perhaps
		&pb.InternalRaftRequest{ID: 1, Compaction: &pb.CompactionRequest{Revision: 5}},
		&pb.InternalRaftRequest{ID: 1, Compaction: &pb.CompactionRequest{Revision: 5}}, // 19: perhaps
		as(4, put("a", "v", 0)),
		as(4, &pb.InternalRaftRequest{AuthUserDelete: &pb.AuthUserDeleteRequest{Name: "x"}}),
		as(4, put("a", "v", 0)), // 22: perhaps
		as(5, put("a", "v", 0)),
		revoke(0), put("a", "v", 0), // 24, 25: a put without a lease is on none that could be revoked
		alarm(pb.AlarmRequest_ACTIVATE),
		txn(false, txn(false, put("a", "", 0), nil), nil), // 27: refused, by a newer etcd
		txn(false, txn(false, del("a", ""), nil), nil),    // 28: taken
		alarm(pb.AlarmRequest_DEACTIVATE),
		txn(false, txn(true, put("a", "", 0), nil), nil),               // 30: perhaps
		txn(false, put("a", "", 0), txn(true, put("a", "", 0), nil)),   // 31: the other branch is not taken
		txn(false, txn(false, txn(true, del("a", ""), nil), nil), nil), // 32: perhaps
		put("a", "v", 99), revoke(99), grant(99), put("a", "v", 99), revoke(7), // 33, 34: nobody had granted it
	)
	lines, _, err := dump(t, l.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := indexes(t, lines, func(m map[string]any) any {
		e, _ := m["effect"].(map[string]any)
		if e == nil {
			return nil
		}
		return fmt.Sprintf("%v %v", e["cause"], e["none"])
	})
	got = slices.DeleteFunc(got, func(s string) bool { return !strings.Contains(s, ":") })
	equal(t, got, "4:lease_gone true 5:lease_gone true 9:nospace true 11:nospace true 13:nospace true 16:branch false 17:needs_key false "+
		"19:compacted false 20:permission false 21:permission false 22:auth_revision false 23:permission false 27:nospace false 30:branch false 32:branch false "+
		"33:lease_gone false 34:lease_gone false")
}

// Enabling authentication leaves the revision of the permissions as it is (AuthEnable in
// server/auth/store.go), disabling it does not: what was proposed at it has its effect.
func TestDumpAuthEnableIsNoChange(t *testing.T) {
	l := newLog(t)
	as := func(rev uint64, r *pb.InternalRaftRequest) *pb.InternalRaftRequest {
		r.Header = &pb.RequestHeader{ID: 1, Username: "root", AuthRevision: rev}
		return r
	}
	l.add(100, as(4, put("a", "v", 0)),
		as(4, &pb.InternalRaftRequest{AuthEnable: &pb.AuthEnableRequest{}}), as(4, put("a", "v", 0)),
		as(4, &pb.InternalRaftRequest{AuthDisable: &pb.AuthDisableRequest{}}), as(4, put("a", "v", 0))) // 5: perhaps
	lines, _, err := dump(t, l.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := indexes(t, lines, func(m map[string]any) any {
		e, _ := m["effect"].(map[string]any)
		if e == nil {
			return nil
		}
		return e["cause"]
	})
	got = slices.DeleteFunc(got, func(s string) bool { return !strings.Contains(s, ":") })
	equal(t, got, "5:auth_revision")
}

// Who is named for the end of a key is not somebody who was refused: what a user asks
// for is held against the permissions only after it was written to the log. All is
// permitted to root.
func TestDumpAsksWhoWasPermitted(t *testing.T) {
	l := newLog(t)
	as := func(user string, r *pb.InternalRaftRequest) *pb.InternalRaftRequest {
		r.Header = &pb.RequestHeader{ID: 1, Username: user, AuthRevision: 5}
		return r
	}
	l.add(100,
		as("root", grant(7)), as("root", put("k", "v", 7)), // 1, 2
		as("bob", del("k", "")),                            // 3 refused, perhaps
		as("root", revoke(7)),                              // 4 so that this deletes it, perhaps
		as("root", grant(8)), as("root", put("k", "v", 8)), // 5, 6
		as("bob", revoke(8)),                                                      // 7 refused, perhaps
		as("bob", del("", "")),                                                    // 8 another key
		as("root", revoke(8)),                                                     // 9 so that this deletes it, perhaps
		as("root", revoke(8)),                                                     // 10 for certain without effect
		as("root", grant(9)), as("root", put("k", "v", 9)), as("root", revoke(9)), // 11, 12, 13
	)
	lines, sum, err := dump(t, l.dir, func(o *DumpOptions) { o.Keys = []string{"k"} })
	if err != nil || sum.UnknownLeases != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	equal(t, indexes(t, lines, func(m map[string]any) any {
		request, _ := m["request"].(map[string]any)
		effect, _ := m["effect"].(map[string]any)
		return fmt.Sprint(m["user"], " ", effect["cause"], " ", request["held"])
	}), "2:root <nil> <nil> 3:bob permission <nil> 4:root <nil> [map[key:k since_index:2 sure:false]] 6:root <nil> <nil> "+
		"7:bob permission [map[key:k since_index:6 sure:false]] 9:root <nil> [map[key:k since_index:6 sure:false]] "+
		"12:root <nil> <nil> 13:root <nil> [map[key:k since_index:12 sure:true]]")
}

// Objects of Kubernetes are named, values are shown when that is asked for, and
// bytes come out without loss.
func TestDumpKeysAndValues(t *testing.T) {
	l := newLog(t)
	pod := "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00"
	l.add(100,
		put("/registry/pods/default/web", pod, 0),
		put("/registry/example.com/widgets/ns/w", `{"apiVersion":"example.com/v1","kind":"Widget","x":1}`, 0),
		put("/registry/secrets/ns/s", "k8s:enc:aescbc:v1:key1:\xff\xff:", 0),
		del("/registry/minions/", "/registry/minions0"),
		put("\xff<\x1b", "secret"+strings.Repeat("\xff", 1000), 0),
	)
	hidden, _, err := dump(t, l.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	open, _, _ := dump(t, l.dir, func(o *DumpOptions) { o.ShowValues = true })
	for i, want := range []string{
		`"request":{"key":"/registry/pods/default/web","value_bytes":17,"kubernetes":{"resource":"pods","namespace":"default","name":"web","kind":"Pod","api_version":"v1"}}`,
		`"kubernetes":{"resource":"widgets.example.com","namespace":"ns","name":"w","kind":"Widget","api_version":"example.com/v1"}`,
		`"kubernetes":{"resource":"secrets","namespace":"ns","name":"s","encrypted":"k8s:enc:aescbc:v1:key1"}`,
		`"request":{"key":"/registry/minions/","range_end":"/registry/minions0","kubernetes":{"resource":"nodes"}}`,
		`"request":{"key_base64":"/zwb","value_bytes":1006}`,
	} {
		if !strings.Contains(hidden[i], want) {
			t.Errorf("%s\nwant %s", hidden[i], want)
		}
		if strings.Contains(hidden[i], "preview") || !strings.Contains(open[i], "preview") != (i == 3) || len(open[i]) > 800 {
			t.Errorf("hidden %s\nopen %s", hidden[i], open[i])
		}
	}
	whole, _, _ := dump(t, l.dir, func(o *DumpOptions) { o.ShowValues, o.ValueBytes = true, 0 })
	some, _, _ := dump(t, l.dir, func(o *DumpOptions) { o.ShowValues, o.ValueBytes = true, 6 })
	all := base64.StdEncoding.EncodeToString([]byte("secret" + strings.Repeat("\xff", 1000)))
	if !strings.Contains(whole[4], `"value_preview_base64":"`+all+`"`) || !strings.Contains(some[4], `"value_preview":"secret"`) {
		t.Errorf("whole %s\nsome %s", whole[4], some[4])
	}
}

// etcd 3.4 kept the users of its v2 API with the hashes of their passwords where the
// values of other users' keys were.
func TestDumpHidesPasswordsOfV2(t *testing.T) {
	d := dumper{o: DumpOptions{ShowValues: true}}
	for path, shown := range map[string]bool{"/2/users/root": false, "/2/users": false, "/1/a": true, "/0/version": true} {
		q := Request{Type: V2Request, V2: V2{Method: "PUT", Path: path, Value: []byte("$2a$10$")}}
		d.present(&q)
		if (len(q.V2.Preview) > 0) != shown {
			t.Errorf("%s: %q", path, q.V2.Preview)
		}
	}
}

// With --client-cert-auth each request has the common name of a certificate as its
// user. As long as there was no root nothing was held against permissions.
func TestDumpKnowsThatAuthenticationWasNeverOn(t *testing.T) {
	l := newLog(t)
	at := func(rev uint64, r *pb.InternalRaftRequest) *pb.InternalRaftRequest {
		r.Header = &pb.RequestHeader{ID: 1, Username: "kube-apiserver-etcd-client", AuthRevision: rev}
		return r
	}
	l.add(100,
		at(1, put("a", "v", 0)),
		at(1, &pb.InternalRaftRequest{AuthUserAdd: &pb.AuthUserAddRequest{Name: "root"}}),
		at(2, &pb.InternalRaftRequest{AuthUserGrantRole: &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}}),
		at(3, &pb.InternalRaftRequest{AuthEnable: &pb.AuthEnableRequest{}}),
		at(3, put("a", "v", 0)), // 5: perhaps; auth_enable alone counts nothing up
	)
	lines, _, err := dump(t, l.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := indexes(t, lines, func(m map[string]any) any {
		e, _ := m["effect"].(map[string]any)
		return e["cause"]
	})
	equal(t, got, "1 2 3 4:permission 5:permission")
}

// What a user asked for begins with asking for a token.
func TestDumpByUserWhoLogsIn(t *testing.T) {
	l := newLog(t)
	as := func(user string, r *pb.InternalRaftRequest) *pb.InternalRaftRequest {
		r.Header = &pb.RequestHeader{ID: 1, Username: user, AuthRevision: 9}
		return r
	}
	l.add(100, &pb.InternalRaftRequest{Authenticate: &pb.InternalAuthenticateRequest{Name: "ann"}}, &pb.InternalRaftRequest{Authenticate: &pb.InternalAuthenticateRequest{Name: "bob"}},
		as("ann", put("a", "v", 0)), as("bob", put("a", "v", 0)))
	lines, sum, err := dump(t, l.dir, func(o *DumpOptions) { o.User = "ann" })
	if err != nil || len(lines) != 2 || sum.First != 1 || sum.Last != 4 {
		t.Errorf("%v, %+v, %v", lines, sum, err)
	}
}
