package wal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// sent is a request that a server was sent, as a dump has to tell it.
type sent struct{ typ, request string }

// sender sends a server requests and notes them.
type sender struct {
	t    *testing.T
	c    *servertest.Cluster
	all  []sent
	user string
}

func (s *sender) note(typ, format string, args ...any) {
	s.all = append(s.all, sent{typ, fmt.Sprintf(format, args...)})
}

func (s *sender) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// keys sends every request about keys, leases, compaction and alarms.
func (s *sender) keys(client *clientv3.Client) {
	s.t.Helper()
	ctx := servertest.Context(s.t, time.Minute)
	do := func(op clientv3.Op) {
		s.t.Helper()
		_, err := client.Do(ctx, op)
		s.must(err)
	}
	do(clientv3.OpPut("/a", "value", clientv3.WithPrevKV()))
	s.note("put", `{"key":"/a","value_bytes":5,"prev_kv":true}`)
	do(clientv3.OpPut("/a", "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease()))
	s.note("put", `{"key":"/a","value_bytes":0,"ignore_value":true,"ignore_lease":true}`)
	do(clientv3.OpPut("\x00\n\xff\x1b[31m", strings.Repeat("\xff", 1400<<10)))
	s.note("put", `{"key_base64":"AAr/G1szMW0=","value_bytes":%d}`, 1400<<10)
	l, err := client.Grant(ctx, 600)
	s.must(err)
	s.note("lease_grant", `{"lease":"%x","ttl_seconds":600}`, l.ID)
	do(clientv3.OpPut("/registry/leases/ns/n", "v", clientv3.WithLease(l.ID)))
	s.note("put", `{"key":"/registry/leases/ns/n","value_bytes":1,"lease":"%x","kubernetes":{"resource":"leases","namespace":"ns","name":"n"}}`, l.ID)
	do(clientv3.OpDelete("/b", clientv3.WithFromKey(), clientv3.WithPrevKV()))
	s.note("delete_range", `{"key":"/b","from_key":true,"prev_kv":true}`)
	do(clientv3.OpDelete("/c/", clientv3.WithPrefix()))
	s.note("delete_range", `{"key":"/c/","range_end":"/c0"}`)

	_, err = client.Txn(ctx).If(
		clientv3.Compare(clientv3.ModRevision("/a"), "=", 1), clientv3.Compare(clientv3.Value("/a"), "!=", "\xff"),
		clientv3.Compare(clientv3.CreateRevision("/a"), "<", 2), clientv3.Compare(clientv3.Version("/x").WithRange("/y"), ">", 3),
		clientv3.Compare(clientv3.LeaseValue("/a"), "=", l.ID)).
		Then(clientv3.OpPut("/t", "1"), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete("/u"), clientv3.OpTxn(nil, nil, nil)}, nil)).
		Else(clientv3.OpGet("/a", clientv3.WithLimit(2), clientv3.WithKeysOnly())).Commit()
	s.must(err)
	s.note("txn", `{"compare":[{"key":"/a","target":"mod_revision","result":"=","value":1},{"key":"/a","target":"value","result":"!=","value_bytes":1},`+
		`{"key":"/a","target":"create_revision","result":"<","value":2},{"key":"/x","range_end":"/y","target":"version","result":">","value":3},`+
		`{"key":"/a","target":"lease","result":"=","value":"%x"}],"success":[{"key":"/t","value_bytes":1,"op":"put"},{"op":"txn","txn":{"compare":[],`+
		`"success":[{"key":"/u","op":"delete_range"},{"op":"txn","txn":{"compare":[],"success":[],"failure":[]}}],"failure":[]}}],`+
		`"failure":[{"key":"/a","op":"range","limit":2,"keys_only":true}]}`, l.ID)
	var ops []clientv3.Op
	var said []string
	for i := range 128 {
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("/many/%d", i), "v"))
		said = append(said, fmt.Sprintf(`{"key":"/many/%d","value_bytes":1,"op":"put"}`, i))
	}
	_, err = client.Txn(ctx).Then(ops...).Commit()
	s.must(err)
	s.note("txn", `{"compare":[],"success":[%s],"failure":[]}`, strings.Join(said, ","))
	_, err = client.Revoke(ctx, l.ID)
	s.must(err)
	s.note("lease_revoke", `{"lease":"%x"}`, l.ID)
	_, err = client.Compact(ctx, 3, clientv3.WithCompactPhysical())
	s.must(err)
	s.note("compaction", `{"revision":3,"physical":true}`)
	alarms := pb.NewMaintenanceClient(client.ActiveConnection())
	for _, a := range []pb.AlarmRequest_AlarmAction{pb.AlarmRequest_ACTIVATE, pb.AlarmRequest_DEACTIVATE} {
		_, err = alarms.Alarm(ctx, &pb.AlarmRequest{Action: a, MemberID: 0xabc, Alarm: pb.AlarmType_NOSPACE})
		s.must(err)
		s.note("alarm", `{"action":"%s","member_id":"abc","alarm":"nospace"}`, strings.ToLower(a.String()))
	}
}

// members adds a member and removes it.
func (s *sender) members(client *clientv3.Client) {
	s.t.Helper()
	ctx := servertest.Context(s.t, time.Minute)
	added, err := client.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:1"})
	s.must(err)
	s.note("conf_change", `{"change":"add_learner","member_id":"%x","peer_urls":["http://127.0.0.1:1"]}`, added.Member.ID)
	_, err = client.MemberUpdate(ctx, added.Member.ID, []string{"http://127.0.0.1:2"})
	s.must(err)
	s.note("conf_change", `{"change":"update","member_id":"%x","peer_urls":["http://127.0.0.1:2"]}`, added.Member.ID)
	_, err = client.MemberRemove(ctx, added.Member.ID)
	s.must(err)
	s.note("conf_change", `{"change":"remove","member_id":"%x"}`, added.Member.ID)
}

// auth sends every request about users and roles that is written to the log, and
// in the end a put of a user.
func (s *sender) auth(client *clientv3.Client) {
	s.t.Helper()
	ctx := servertest.Context(s.t, time.Minute)
	var errs []error
	do := func(_ any, err error) { errs = append(errs, err) }
	do(client.RoleAdd(ctx, "root"))
	do(client.RoleAdd(ctx, "r"))
	do(client.RoleGrantPermission(ctx, "r", "/p/", "/p0", clientv3.PermissionType(clientv3.PermReadWrite)))
	do(client.RoleRevokePermission(ctx, "r", "/p/", "/p0"))
	do(client.RoleDelete(ctx, "r"))
	do(client.UserAdd(ctx, "root", "secret-1"))
	do(client.UserAdd(ctx, "u", "secret-2"))
	do(client.UserChangePassword(ctx, "u", "secret-3"))
	do(client.UserGrantRole(ctx, "u", "root"))
	do(client.UserRevokeRole(ctx, "u", "root"))
	do(client.UserDelete(ctx, "u"))
	do(client.UserGrantRole(ctx, "root", "root"))
	do(client.AuthEnable(ctx))
	for _, err := range errs {
		s.must(err)
	}
	for _, n := range []sent{{"auth_role_add", `{"role":"root"}`}, {"auth_role_add", `{"role":"r"}`},
		{"auth_role_grant_permission", `{"role":"r","permission":"readwrite","key":"/p/","range_end":"/p0"}`},
		{"auth_role_revoke_permission", `{"role":"r","key":"/p/","range_end":"/p0"}`}, {"auth_role_delete", `{"role":"r"}`},
		{"auth_user_add", `{"user":"root","password":"redacted"}`}, {"auth_user_add", `{"user":"u","password":"redacted"}`},
		{"auth_user_change_password", `{"user":"u","password":"redacted"}`}, {"auth_user_grant_role", `{"user":"u","role":"root"}`},
		{"auth_user_revoke_role", `{"user":"u","role":"root"}`}, {"auth_user_delete", `{"user":"u"}`},
		{"auth_user_grant_role", `{"user":"root","role":"root"}`}, {"auth_enable", ""}} {
		s.note(n.typ, "%s", n.request)
	}
	as := s.c.ClientAs(s.t, "root", "secret-1")
	s.note("authenticate", `{"user":"root","password":"redacted"}`)
	_, err := as.Put(ctx, "/by/root", "v")
	s.must(err)
	s.note("put", `{"key":"/by/root","value_bytes":1}`)
	s.user = "root"
	_, err = as.AuthDisable(ctx)
	s.must(err)
	s.note("auth_disable", "")
}

// check compares a dump with what was sent. The server's own entries are looked
// at for their types, of which each of own has to be there.
func (s *sender) check(dir string, own ...string) {
	s.t.Helper()
	var got []sent
	types, last := map[string]bool{}, uint64(0)
	sum, err := Dump(s.t.Context(), dir, DefaultDumpOptions(), func(l *Line) error {
		raw, err := json.Marshal(l)
		if err != nil {
			return err
		}
		var line struct {
			User    string
			Request json.RawMessage
		}
		if err := json.Unmarshal(raw, &line); err != nil {
			return err
		}
		if l.Index != last+1 || strings.Contains(string(raw), "secret") {
			s.t.Errorf("behind %d: %s", last, raw)
		}
		last = l.Index
		types[string(l.Type)] = true
		if by := strings.Contains(string(line.Request), "/by/root"); by && line.User != s.user {
			s.t.Errorf("by user %q: %s", line.User, raw)
		}
		if !slices.Contains(own, string(l.Type)) && !(l.Type == ConfChangeV1 && strings.Contains(string(line.Request), `"change":"add",`)) {
			got = append(got, sent{string(l.Type), string(line.Request)})
		}
		return nil
	})
	s.must(err)
	for _, t := range own {
		if !types[t] {
			s.t.Errorf("no entry of type %s", t)
		}
	}
	got = slices.CompactFunc(got, func(a, b sent) bool { return a == b && a.typ == "authenticate" })
	if sum.Entries != int64(last) || len(got) != len(s.all) {
		s.t.Errorf("%d entries up to %d, %d of them were to be sent by %d requests", sum.Entries, last, len(got), len(s.all))
	}
	for i := range min(len(got), len(s.all)) {
		if got[i].typ != s.all[i].typ || !sameJSON(got[i].request, s.all[i].request) {
			s.t.Errorf("%d: %.600s\nsent %.600s", i, got[i], s.all[i])
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	if a == "" || b == "" {
		return a == b
	}
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// What a real server was sent is in a dump of its log, request for request: while
// it runs, and after it has stopped.
func TestDumpOfAServer(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	s := &sender{t: t, c: c}
	client := c.Client(t)
	ctx := servertest.Context(t, time.Minute)
	s.keys(client)
	s.members(client)
	if _, err := client.Downgrade(ctx, clientv3.DowngradeEnable, "3.6.0"); err != nil {
		t.Fatal(err)
	}
	s.note("downgrade_info_set", `{"version":"3.6.0","enabled":true}`)
	if _, err := client.Downgrade(ctx, clientv3.DowngradeCancel, ""); err != nil {
		t.Fatal(err)
	}
	s.note("downgrade_info_set", `{"version":"","enabled":false}`)
	s.auth(client)
	own := []string{"noop", "cluster_member_attr_set", "cluster_version_set"}
	s.check(c.DataDir(0), own...)
	if err := c.StopMember(ctx, 0); err != nil {
		t.Fatal(err)
	}
	s.check(c.DataDir(0), own...)
}
