package ops_test

import (
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// withUsers is one member with authentication on: root, and bob, who may write
// what begins with /l.
func withUsers(t *testing.T) *place {
	t.Helper()
	o := servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}}
	p := &place{world: world{members: 1}, Cluster: servertest.Start(t, o)}
	p.EnableAuth(t, servertest.User{Name: "bob", Password: "pw", Prefix: "/l"})
	p.Client = p.Cluster.Client(t)
	return p
}

// connectAs is a patient client of kvd's: of a user with its password, or of nobody.
func (p *place) connectAs(t *testing.T, user string) *cluster.Client {
	t.Helper()
	cfg := patience(p.Endpoints())
	cfg.User, cfg.Password, _ = strings.Cut(user, ":")
	c, err := cluster.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A lease that is not there comes after the permission, and does not hide it.
func TestExplainedLeaseComesAfterPermission(t *testing.T) {
	t.Parallel()
	p := withUsers(t)
	bob, client := p.connectAs(t, "bob:pw"), p.ClientAs(t, "bob", "pw")
	for key, stopsAt := range map[string]string{"/m": "permission", "/l": "store"} {
		o := p.writeTo(key, 1, "")
		o.Lease = 0x12345
		holds(t, bob, o, writer{client: client, opts: []clientv3.OpOption{clientv3.WithLease(0x12345)}}, stopsAt)
	}
}

// A request of nobody is refused for sure, but who refuses it depends on the
// alarms, which nobody is told.
func TestExplainedWriteOfNobodyIsInDoubt(t *testing.T) {
	t.Parallel()
	p := withUsers(t)
	nobody, put := p.connectAs(t, ""), writer{client: p.ClientAs(t, "", "")}
	for _, c := range []struct {
		alarm pb.AlarmType
		told  error
	}{{pb.AlarmType_NONE, rpctypes.ErrUserEmpty}, {pb.AlarmType_NOSPACE, rpctypes.ErrNoSpace}, {pb.AlarmType_CORRUPT, rpctypes.ErrCorrupt}} {
		if c.alarm != pb.AlarmType_NONE {
			p.raise(t, pb.AlarmRequest_ACTIVATE, c.alarm, p.connectedTo(t))
		}
		o := p.writeTo("k", 1, "")
		r := explained(t, &place{KVD: nobody}, o)
		if r.Verdict != ops.WriteRefused || r.StopsAt != "permission" || !r.AtTheLatest || r.Error != "" || !strings.Contains(r.Why, "alarm") {
			t.Errorf("%s: %s at %q, at the latest: %t, told %q, not known: %s", c.alarm, r.Verdict, r.StopsAt, r.AtTheLatest, r.Error, r.Why)
		}
		if at := r.Steps[14]; len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "not known") || !strings.Contains(at.Detail, "not known") {
			t.Errorf("%s: of the members that nobody is told: notes %q, %s: %s", c.alarm, r.Notes, at.Check, at.Detail)
		}
		if n := raftSent(r); n != 0 {
			t.Errorf("%s: %d proposals for a write by nobody, want none", c.alarm, n)
		}
		if msg := r.Err().Error(); !strings.Contains(msg, "at the latest") || strings.Contains(msg, rpctypes.ErrUserEmpty.Error()) {
			t.Errorf("%s: %s", c.alarm, msg)
		}
		if err := put.put(t, o); err == nil || !strings.HasSuffix(err.Error(), c.told.Error()) {
			t.Errorf("%s: the real write: %v, want %v", c.alarm, err, c.told)
		}
	}
}

// connectedTo is the ID of the only member.
func (p *place) connectedTo(t *testing.T) uint64 {
	t.Helper()
	r, err := p.Client.Status(servertest.Context(t, 20*time.Second), p.Endpoint(0))
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.MemberId
}

// The client's own limit is another where it was set to another.
func TestExplainedLimitOfTheClient(t *testing.T) {
	t.Parallel()
	p := world{members: 1, keyFmt: "k%d"}.build(t, "--max-request-bytes=4194304")
	p.KVD = p.patient(t)
	for _, limit := range []int64{64 << 10, 3 << 20} {
		client, err := clientv3.New(clientv3.Config{Endpoints: p.Endpoints(), Logger: zap.NewNop(), MaxCallSendMsgSize: int(limit)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		o := p.writeTo("k", limit-100, "")
		o.MaxRequest, o.MaxSend = 4<<20, limit
		o.Value += limit - numbers(explained(t, p, o), "send_limit")["message_bytes"]
		holds(t, p.KVD, o, writer{client: client}, "")
		o.Value++
		holds(t, p.KVD, o, writer{client: client}, "send_limit")
	}
}

// A token is somebody's whom --as-user names, and is what kvd itself asks with
// where it has nothing else.
func TestExplainedTokenOfAUser(t *testing.T) {
	t.Parallel()
	p := withUsers(t)
	token := p.token(t, p.ClientAs(t, "", ""), "bob")
	for name, user := range map[string]string{"the token alone": "", "beside root": "root:" + servertest.RootPassword, "beside bob": "bob:pw"} {
		kvd := p.connectAs(t, user)
		for key, stopsAt := range map[string]string{"/l": "", "/m": "permission"} {
			o := p.writeTo(key, 1, p.Name(0))
			o.Token, o.AsUser = token, "bob"
			r := holds(t, kvd, o, writer{client: p.once(t), token: token}, stopsAt)
			if r.User != "bob" || stopsAt != "" && !strings.Contains(fault.HintOf(r.Err()), "grant-permission") {
				t.Errorf("%s, %s: user %q, hint %q", name, key, r.User, fault.HintOf(r.Err()))
			}
		}
		o := p.writeTo("/l", 1, "")
		o.Token, o.AsUser = "not.1", "bob"
		if r := explained(t, &place{KVD: kvd}, o); r.StopsAt != "token" || r.AtTheLatest {
			t.Errorf("%s, a token that nobody made: %s at %q", name, r.Verdict, r.StopsAt)
		}
		o.Token, o.AsUser = token, ""
		if r := explained(t, &place{KVD: kvd}, o); r.Verdict != ops.WriteUnknown || !strings.Contains(r.Why, "--as-user") {
			t.Errorf("%s, without a name: %s, %s", name, r.Verdict, r.Why)
		}
	}
}

// A password that is wrong ends it as it ends the writer's own client: at the
// login.
func TestExplainedLoginIsRefused(t *testing.T) {
	t.Parallel()
	p := withUsers(t)
	for _, user := range []string{"bob:wrong", "ghost:pw"} {
		_, err := ops.ExplainWrite(servertest.Context(t, time.Minute), p.connectAs(t, user), p.writeTo("/l", 1, ""))
		name, pw, _ := strings.Cut(user, ":")
		_, real := clientv3.New(clientv3.Config{Endpoints: p.Endpoints(), Username: name, Password: pw, DialTimeout: 20 * time.Second, Logger: zap.NewNop()})
		if real == nil || !strings.HasSuffix(real.Error(), rpctypes.ErrAuthFailed.Error()) {
			t.Fatalf("the real login of %s: %v", user, real)
		}
		if fault.KindOf(err) != fault.Denied || fault.CauseOf(err) != cluster.CauseAuthFailed || !strings.Contains(err.Error(), rpctypes.ErrAuthFailed.Error()) {
			t.Errorf("%s: %v", user, err)
		}
	}
	o := p.writeTo("/l", 1, "")
	o.AsUser = "ghost"
	r := explained(t, &place{KVD: p.connectAs(t, "root:"+servertest.RootPassword)}, o)
	if hint := fault.HintOf(r.Err()); r.StopsAt != "permission" || !strings.Contains(hint, "add the user") {
		t.Errorf("a user that is not there stops at %q, hint: %s", r.StopsAt, hint)
	}
}
