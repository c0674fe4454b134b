package wal

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// everyRequest has one of each kind that an InternalRaftRequest can be, with
// every field that counts set.
func everyRequest() []*pb.InternalRaftRequest {
	odd := []byte("a\x00\n\xff\x1b[31m")
	put := func(k, v string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(k), Value: []byte(v), Lease: -5, PrevKv: true}}}
	}
	get := func(k, end string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(k), RangeEnd: []byte(end)}}}
	}
	del := func(k, end string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(k), RangeEnd: []byte(end), PrevKv: true}}}
	}
	nested := func(t *pb.TxnRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: t}}
	}
	var many []*pb.RequestOp
	for i := range 128 {
		many = append(many, put(strings.Repeat("k", i+1), strings.Repeat("v", i)))
	}
	return []*pb.InternalRaftRequest{
		{Range: &pb.RangeRequest{Key: odd, RangeEnd: []byte{0}, Limit: 1, Revision: 2, SortOrder: 2, SortTarget: 4, Serializable: true, KeysOnly: true,
			CountOnly: true, MinModRevision: 3, MaxModRevision: 4, MinCreateRevision: 5, MaxCreateRevision: 6}},
		{Put: &pb.PutRequest{Key: odd, Value: bytes.Repeat([]byte{0xff}, 1<<20+1<<18), Lease: 1 << 62, PrevKv: true, IgnoreValue: true, IgnoreLease: true}},
		{DeleteRange: &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: odd, PrevKv: true}},
		{Txn: &pb.TxnRequest{Success: many}},
		{Txn: &pb.TxnRequest{
			Compare: []*pb.Compare{
				{Result: pb.Compare_EQUAL, Target: pb.Compare_MOD, Key: []byte("a"), TargetUnion: &pb.Compare_ModRevision{ModRevision: 7}},
				{Result: pb.Compare_GREATER, Target: pb.Compare_CREATE, Key: []byte("b"), TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 8}},
				{Result: pb.Compare_LESS, Target: pb.Compare_VERSION, Key: odd, TargetUnion: &pb.Compare_Version{Version: -9}, RangeEnd: []byte{0}},
				{Result: pb.Compare_NOT_EQUAL, Target: pb.Compare_VALUE, Key: []byte("d"), TargetUnion: &pb.Compare_Value{Value: odd}, RangeEnd: []byte("e")},
				{Target: pb.Compare_LEASE, Key: []byte("f"), TargetUnion: &pb.Compare_Lease{Lease: 10}},
			},
			Success: []*pb.RequestOp{put("a", "1"), get("b", ""), nested(&pb.TxnRequest{Success: []*pb.RequestOp{del("c", "d"), nested(&pb.TxnRequest{
				Failure: []*pb.RequestOp{put("deep", "x")}})}})},
			Failure: []*pb.RequestOp{get("a", "\x00"), del("x", "")},
		}},
		{Compaction: &pb.CompactionRequest{Revision: 9, Physical: true}},
		{LeaseGrant: &pb.LeaseGrantRequest{ID: 0x694d8257011f1b4d, TTL: 60}},
		{LeaseRevoke: &pb.LeaseRevokeRequest{ID: -1}},
		{LeaseCheckpoint: &pb.LeaseCheckpointRequest{Checkpoints: []*pb.LeaseCheckpoint{{ID: 1, Remaining_TTL: 2}, {ID: 3, Remaining_TTL: 4}}}},
		{Alarm: &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 0x8e9e05c52164694d, Alarm: pb.AlarmType_NOSPACE}},
		{AuthEnable: &pb.AuthEnableRequest{}},
		{AuthDisable: &pb.AuthDisableRequest{}},
		{AuthStatus: &pb.AuthStatusRequest{}},
		{Authenticate: &pb.InternalAuthenticateRequest{Name: "u", Password: "pw", SimpleToken: "token"}},
		{AuthUserAdd: &pb.AuthUserAddRequest{Name: "u", Password: "pw", HashedPassword: "hash", Options: &authpb.UserAddOptions{NoPassword: true}}},
		{AuthUserDelete: &pb.AuthUserDeleteRequest{Name: "u"}},
		{AuthUserGet: &pb.AuthUserGetRequest{Name: "u"}},
		{AuthUserChangePassword: &pb.AuthUserChangePasswordRequest{Name: "u", Password: "pw", HashedPassword: "hash"}},
		{AuthUserGrantRole: &pb.AuthUserGrantRoleRequest{User: "u", Role: "r"}},
		{AuthUserRevokeRole: &pb.AuthUserRevokeRoleRequest{Name: "u", Role: "r"}},
		{AuthUserList: &pb.AuthUserListRequest{}},
		{AuthRoleList: &pb.AuthRoleListRequest{}},
		{AuthRoleAdd: &pb.AuthRoleAddRequest{Name: "r"}},
		{AuthRoleDelete: &pb.AuthRoleDeleteRequest{Role: "r"}},
		{AuthRoleGet: &pb.AuthRoleGetRequest{Role: "r"}},
		{AuthRoleGrantPermission: &pb.AuthRoleGrantPermissionRequest{Name: "r", Perm: &authpb.Permission{PermType: authpb.READWRITE, Key: odd, RangeEnd: []byte{0}}}},
		{AuthRoleRevokePermission: &pb.AuthRoleRevokePermissionRequest{Role: "r", Key: odd, RangeEnd: []byte("z")}},
		{ClusterVersionSet: &membershippb.ClusterVersionSetRequest{Ver: "3.7.0"}},
		{ClusterMemberAttrSet: &membershippb.ClusterMemberAttrSetRequest{Member_ID: 5, MemberAttributes: &membershippb.Attributes{Name: "m1", ClientUrls: []string{"a", "b"}}}},
		{DowngradeInfoSet: &membershippb.DowngradeInfoSetRequest{Enabled: true, Ver: "3.6.0"}},
		{DowngradeVersionTest: &pb.DowngradeVersionTestRequest{Ver: "3.6.0"}},
	}
}

// Each kind of request is read as etcd's own code reads it, and none is forgotten.
func TestRequestsAsEtcd(t *testing.T) {
	kinds := map[RequestType]bool{}
	for _, req := range everyRequest() {
		for _, header := range []*pb.RequestHeader{nil, {ID: 77, Username: "alice", AuthRevision: 12}} {
			req.Header = header
			if req.ID = 5; header != nil {
				req.ID = 0
			}
			data, err := proto.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			var r Request
			r.Decode(Entry{Data: data})
			if want := setField(req); string(r.Type) != want {
				t.Errorf("%s was read as %s", want, r.Type)
			}
			if said := differs(&r, data); said != "" {
				t.Errorf("%s: %s", r.Type, said)
			}
			if header != nil && (r.ID != 77 || r.User != "alice" || r.AuthRevision != 12) || header == nil && (r.ID != 5 || r.User != "") {
				t.Errorf("%s: ID %d, user %q, revision %d", r.Type, r.ID, r.User, r.AuthRevision)
			}
			text, err := json.Marshal(r.Body())
			if err != nil {
				t.Error(err)
			}
			for _, secret := range []string{"pw", "hash", "token"} {
				if strings.Contains(string(text), `"`+secret+`"`) {
					t.Errorf("%s shows %q: %s", r.Type, secret, text)
				}
			}
			kinds[r.Type] = true
		}
	}
	fields := (&pb.InternalRaftRequest{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := RequestType(f.Name())
		if f.Kind() == protoreflect.MessageKind && name != "header" && (!kinds[name] || !slices.Contains(RequestTypes(), name)) {
			t.Errorf("no request of kind %s (field %d)", name, f.Number())
		}
	}
}

func setField(req *pb.InternalRaftRequest) (name string) {
	req.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.Kind() == protoreflect.MessageKind && f.Name() != "header" {
			name = string(f.Name())
		}
		return true
	})
	return name
}

// What is no request of today's etcd is still an entry: a newer etcd's field, an
// older one's form, a change of members, nothing at all.
func TestOtherEntries(t *testing.T) {
	newer := protowire.AppendBytes(protowire.AppendTag([]byte{8, 5}, 9999, protowire.BytesType), []byte("hello"))
	conf := func(typ raftpb.ConfChangeType, context string) []byte {
		b, err := proto.Marshal(&raftpb.ConfChange{Type: &typ, NodeId: new(uint64(0xab)), Context: []byte(context), Id: new(uint64(3))})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	str := func(b []byte, num protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
	}
	v2 := str(str(str([]byte{8, 9}, 2, "PUT"), 3, "/0/members/ab/attributes"), 4, `{"name":"m1"}`)
	room := make([]byte, 1<<17)
	deep := room[len(room):]
	around := func(num protowire.Number) { // puts a field around what there is, without moving it
		head := protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.BytesType), uint64(len(deep)))
		deep = room[len(room)-len(deep)-len(head):]
		copy(deep, head)
	}
	for range 6000 { // each a Txn in an op of the one around it
		around(4)
		around(2)
	}
	around(6)
	for _, tc := range []struct {
		name  string
		entry Entry
		typ   RequestType
		body  string
	}{
		{"a new leader's", Entry{}, NoRequest, "null"},
		{"a newer etcd's", Entry{Data: newer}, UnknownType, "null"},
		{"not a message", Entry{Data: []byte{0xff}}, UndecodedType, "null"},
		{"a put that is none", Entry{Data: []byte{0x22, 1, 0xff}}, UndecodedType, "null"},
		{"nested too deep", Entry{Data: deep}, UndecodedType, "null"},
		{"another type", Entry{Type: 9}, UndecodedType, "null"},
		{"joint consensus", Entry{Type: 2, Data: []byte{1}}, ConfChangeV2, "null"},
		{"a bare v2 request", Entry{Data: v2}, V2Request, `{"method":"PUT","path":"/0/members/ab/attributes","value_bytes":13}`},
		{"a v2 request", Entry{Data: protowire.AppendBytes(protowire.AppendTag([]byte{8, 5}, 2, protowire.BytesType), v2)}, V2Request,
			`{"method":"PUT","path":"/0/members/ab/attributes","value_bytes":13}`},
		{"add", Entry{Type: 1, Data: conf(0, `{"id":171,"peerURLs":["http://x"],"name":"m2"}`)}, ConfChangeV1,
			`{"change":"add","member_id":"ab","name":"m2","peer_urls":["http://x"]}`},
		{"promote", Entry{Type: 1, Data: conf(0, `{"id":171,"isPromote":true}`)}, ConfChangeV1, `{"change":"promote","member_id":"ab"}`},
		{"learner", Entry{Type: 1, Data: conf(3, `{"id":171,"isLearner":true}`)}, ConfChangeV1, `{"change":"add_learner","member_id":"ab"}`},
		{"remove", Entry{Type: 1, Data: conf(1, "")}, ConfChangeV1, `{"change":"remove","member_id":"ab"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r Request
			r.Decode(tc.entry)
			body, err := json.Marshal(r.Body())
			if err != nil || r.Type != tc.typ || string(body) != tc.body {
				t.Errorf("%s %s, %v", r.Type, body, err)
			}
		})
	}
	var r Request
	r.Decode(Entry{Data: newer})
	if len(r.Unknown) != 1 || r.Unknown[0] != (UnknownField{9999, 6}) || r.ID != 5 {
		t.Errorf("%+v", r)
	}
}

// Foreign bytes are read as etcd's own code reads them, and never with a panic.
func FuzzRequest(f *testing.F) {
	for _, req := range everyRequest() {
		req.Header = &pb.RequestHeader{ID: 1, Username: "u", AuthRevision: 3}
		data, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 4096 {
			f.Add(data)
			f.Add(append(data, data...))
			f.Add(data[:len(data)/2])
		}
	}
	f.Add([]byte("\x12\a\b000000"))                             // field 2, which held the v2 API's request, with something else
	f.Add([]byte("\xa2\x06\a\b02\x01000\xc20\x00\x9000\b\x00")) // an ID in the header, and one of 0 outside it
	f.Add([]byte("\xfaD\a002\x01000\xeaD\x032\x010"))           // two requests in one entry
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Request
		for typ := range int32(3) {
			r.Decode(Entry{Type: typ, Data: data})
			(&dumper{}).present(&r) // which cuts off what is nested too deep for JSON
			if _, err := json.Marshal(r.Body()); err != nil {
				t.Fatal(err)
			}
		}
		r.Decode(Entry{Data: data})
		if said := differs(&r, data); said != "" {
			t.Fatal(said)
		}
	})
}

// Whatever entries follow each other, they are dumped and counted without a panic,
// and each is counted once.
func FuzzEntries(f *testing.F) {
	entry := func(b []byte, req *pb.InternalRaftRequest) []byte {
		data, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		return append(append(b, byte(len(data)), 2), data...)
	}
	for _, req := range everyRequest() { // small inputs, which a fuzzer gets on with
		if proto.Size(req) < 100 {
			f.Add(entry(entry(entry(nil, grant(7)), put("ab", "v", 7)), req))
			f.Add(entry(entry(nil, req), revoke(7)))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var found horizon
		var records []Record
		index := uint64(1)
		for len(data) > 2 { // length and step of the index, then an entry
			n := min(int(data[0]), len(data)-2)
			index = max(1, index+uint64(data[1]%4)-1)
			e := Entry{Term: uint64(len(data)), Index: index, Type: int32(data[1] / 85), Data: data[2 : 2+n]}
			r := Record{Position: Position{"x", int64(len(records))}, Size: int64(n), Type: EntryType, Entry: e}
			found.add(&r)
			records, data = append(records, r), data[2+n:]
		}
		o := DefaultDumpOptions()
		o.ShowValues = true
		for _, prefixes := range [][]string{nil, {"a"}} {
			o.Prefixes = prefixes
			d := newDumper(o, found, func(l *Line) error { _, err := json.Marshal(l); return err })
			d.found.cuts = slices.Clone(found.cuts)
			for i := range records {
				if err := d.record(&records[i]); err != nil {
					t.Fatal(err)
				}
			}
			if d.sum.Entries != int64(len(records)) || prefixes == nil && d.sum.Shown != d.sum.Entries {
				t.Fatalf("%d entries: %+v", len(records), d.sum)
			}
		}
		c := newCounter(DefaultStatsOptions())
		for i := range records {
			c.record(&records[i])
		}
		if s := c.finish(); s.Entries != int64(len(records)) {
			t.Fatalf("%d entries: %+v", len(records), s)
		}
	})
}
