package wal

import (
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// differs compares what was decoded with what etcd's own code decodes; "" means
// that they are the same.
func differs(r *Request, data []byte) string {
	var want pb.InternalRaftRequest
	err := proto.Unmarshal(data, &want)
	if r.Type == V2Request {
		return "" // not known to etcd 3.7 any more
	}
	if err != nil && r.plain() {
		return fmt.Sprintf("taken for what etcd decodes: %v", err)
	}
	if err != nil {
		return "" // whatever was made of it, etcd does not start on it
	}
	if r.Type == UndecodedType {
		return fmt.Sprintf("etcd reads %s", &want)
	}
	if len(data) == 0 {
		return ""
	}
	if name := applied(&want); name != string(r.Type) && (name != "" || r.Type != UnknownType) {
		return fmt.Sprintf("%s, etcd applies %q of %s", r.Type, name, &want)
	}
	got := back(r)
	clean(want.ProtoReflect(), string(r.Type))
	if want.Header != nil {
		if want.ID == 0 {
			want.ID = want.Header.ID
		}
		if want.Header.Username != r.User || want.Header.AuthRevision != r.AuthRevision {
			return "another header"
		}
		want.Header = nil
	}
	even(&want)
	if !proto.Equal(got, &want) {
		return fmt.Sprintf("%s\netcd reads %s", got, &want)
	}
	return ""
}

// applied names the one of the requests in an entry that etcd applies (dispatch in
// server/etcdserver/apply/uber_applier.go).
func applied(req *pb.InternalRaftRequest) string {
	m := req.ProtoReflect()
	for _, name := range strings.Fields(`cluster_version_set cluster_member_attr_set downgrade_info_set downgrade_version_test range put delete_range txn
		compaction lease_grant lease_revoke lease_checkpoint alarm authenticate auth_enable auth_disable auth_status auth_user_add auth_user_delete
		auth_user_change_password auth_user_grant_role auth_user_get auth_user_revoke_role auth_role_add auth_role_grant_permission auth_role_get
		auth_role_revoke_permission auth_role_delete auth_user_list auth_role_list`) {
		if m.Has(m.Descriptor().Fields().ByName(protoreflect.Name(name))) {
			return name
		}
	}
	return ""
}

// clean takes out of a message what is not compared: unknown fields, secrets, and
// all requests in one entry but the one that etcd would look at.
func clean(m protoreflect.Message, only string) {
	m.SetUnknown(nil)
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := strings.ToLower(string(f.Name()))
		switch {
		case f.Kind() == protoreflect.StringKind && (strings.Contains(name, "password") || strings.Contains(name, "token")):
			m.Clear(f)
		case only != "" && f.Kind() == protoreflect.MessageKind && name != "header" && name != only:
			m.Clear(f)
			return true
		}
		switch {
		case f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			for i := range v.List().Len() {
				clean(v.List().Get(i).Message(), "")
			}
		default:
			clean(v.Message(), "")
		}
		return true
	})
}

// back makes etcd's form of a request again.
func back(r *Request) *pb.InternalRaftRequest {
	out := &pb.InternalRaftRequest{ID: r.ID}
	switch r.Type {
	case PutType:
		out.Put = backPut(&r.KV)
	case RangeType:
		out.Range = backRange(&r.KV)
	case DeleteRangeType:
		out.DeleteRange = backDelete(&r.KV)
	case TxnType:
		out.Txn = backTxn(&r.Txn)
	case CompactionType:
		out.Compaction = &pb.CompactionRequest{Revision: r.Compaction.Revision, Physical: r.Compaction.Physical}
	case LeaseGrantType:
		out.LeaseGrant = &pb.LeaseGrantRequest{ID: int64(r.Lease.ID), TTL: r.Lease.TTL}
	case LeaseRevokeType:
		out.LeaseRevoke = &pb.LeaseRevokeRequest{ID: int64(r.Lease.ID)}
	case LeaseCheckpointType:
		out.LeaseCheckpoint = &pb.LeaseCheckpointRequest{}
		for _, c := range r.Checkpoints {
			out.LeaseCheckpoint.Checkpoints = append(out.LeaseCheckpoint.Checkpoints, &pb.LeaseCheckpoint{ID: int64(c.ID), Remaining_TTL: c.Remaining})
		}
	case AlarmType:
		out.Alarm = &pb.AlarmRequest{MemberID: uint64(r.Alarm.Member), Action: pb.AlarmRequest_AlarmAction(number(r.Alarm.Action, "get", "activate", "deactivate")),
			Alarm: pb.AlarmType(number(r.Alarm.Alarm, "none", "nospace", "corrupt"))}
	case ClusterVersionType:
		out.ClusterVersionSet = &membershippb.ClusterVersionSetRequest{Ver: r.Version.Version}
	case DowngradeType:
		out.DowngradeInfoSet = &membershippb.DowngradeInfoSetRequest{Ver: r.Version.Version, Enabled: *r.Version.Enabled}
	case "downgrade_version_test":
		out.DowngradeVersionTest = &pb.DowngradeVersionTestRequest{Ver: r.Version.Version}
	case MemberAttrType:
		out.ClusterMemberAttrSet = &membershippb.ClusterMemberAttrSetRequest{Member_ID: uint64(r.Member.ID)}
		out.ClusterMemberAttrSet.MemberAttributes = &membershippb.Attributes{Name: r.Member.Name, ClientUrls: r.Member.ClientURLs}
	default:
		backAuth(out, r)
	}
	return out
}

func backAuth(out *pb.InternalRaftRequest, r *Request) {
	a := r.Auth
	switch r.Type {
	case "auth_enable":
		out.AuthEnable = &pb.AuthEnableRequest{}
	case "auth_disable":
		out.AuthDisable = &pb.AuthDisableRequest{}
	case "auth_status":
		out.AuthStatus = &pb.AuthStatusRequest{}
	case "authenticate":
		out.Authenticate = &pb.InternalAuthenticateRequest{Name: a.User}
	case "auth_user_add":
		out.AuthUserAdd = &pb.AuthUserAddRequest{Name: a.User, Options: &authpb.UserAddOptions{NoPassword: a.NoPassword}}
	case "auth_user_delete":
		out.AuthUserDelete = &pb.AuthUserDeleteRequest{Name: a.User}
	case "auth_user_get":
		out.AuthUserGet = &pb.AuthUserGetRequest{Name: a.User}
	case "auth_user_change_password":
		out.AuthUserChangePassword = &pb.AuthUserChangePasswordRequest{Name: a.User}
	case "auth_user_grant_role":
		out.AuthUserGrantRole = &pb.AuthUserGrantRoleRequest{User: a.User, Role: a.Role}
	case "auth_user_revoke_role":
		out.AuthUserRevokeRole = &pb.AuthUserRevokeRoleRequest{Name: a.User, Role: a.Role}
	case "auth_user_list":
		out.AuthUserList = &pb.AuthUserListRequest{}
	case "auth_role_list":
		out.AuthRoleList = &pb.AuthRoleListRequest{}
	case "auth_role_add":
		out.AuthRoleAdd = &pb.AuthRoleAddRequest{Name: a.Role}
	case "auth_role_delete":
		out.AuthRoleDelete = &pb.AuthRoleDeleteRequest{Role: a.Role}
	case "auth_role_get":
		out.AuthRoleGet = &pb.AuthRoleGetRequest{Role: a.Role}
	case "auth_role_grant_permission":
		out.AuthRoleGrantPermission = &pb.AuthRoleGrantPermissionRequest{Name: a.Role, Perm: &authpb.Permission{Key: []byte(a.Key), RangeEnd: []byte(a.End),
			PermType: authpb.Permission_Type(number(a.Permission, "read", "write", "readwrite"))}}
	case "auth_role_revoke_permission":
		out.AuthRoleRevokePermission = &pb.AuthRoleRevokePermissionRequest{Role: a.Role, Key: []byte(a.Key), RangeEnd: []byte(a.End)}
	}
}

func backTxn(t *Txn) *pb.TxnRequest {
	out := &pb.TxnRequest{}
	for _, c := range t.Compare {
		b := &pb.Compare{Key: c.Key, RangeEnd: c.End, Result: pb.Compare_CompareResult(number(c.Result, "=", ">", "<", "!=")),
			Target: pb.Compare_CompareTarget(number(c.Target, "version", "create_revision", "mod_revision", "value", "lease"))}
		setUnion(b, c.Number, c.Value)
		out.Compare = append(out.Compare, b)
	}
	ops := func(ops []Op) (out []*pb.RequestOp) {
		for i := range ops {
			o, b := &ops[i], &pb.RequestOp{}
			switch o.Op {
			case PutType:
				b.Request = &pb.RequestOp_RequestPut{RequestPut: backPut(o)}
			case RangeType:
				b.Request = &pb.RequestOp_RequestRange{RequestRange: backRange(o)}
			case DeleteRangeType:
				b.Request = &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: backDelete(o)}
			case TxnType:
				b.Request = &pb.RequestOp_RequestTxn{RequestTxn: backTxn(o.Txn)}
			}
			out = append(out, b)
		}
		return out
	}
	out.Success, out.Failure = ops(t.Success), ops(t.Failure)
	return out
}

func backPut(o *Op) *pb.PutRequest {
	return &pb.PutRequest{Key: o.Key, Value: o.Value, Lease: int64(o.Lease), PrevKv: o.PrevKV, IgnoreValue: o.IgnoreValue, IgnoreLease: o.IgnoreLease}
}

func backRange(o *Op) *pb.RangeRequest {
	return &pb.RangeRequest{Key: o.Key, RangeEnd: o.End, Limit: o.Limit, Revision: o.Revision, SortOrder: pb.RangeRequest_SortOrder(o.SortOrder),
		SortTarget: pb.RangeRequest_SortTarget(o.SortTarget), Serializable: o.Serializable, KeysOnly: o.KeysOnly, CountOnly: o.CountOnly,
		MinModRevision: o.MinModRev, MaxModRevision: o.MaxModRev, MinCreateRevision: o.MinCreateRev, MaxCreateRevision: o.MaxCreateRev}
}

func backDelete(o *Op) *pb.DeleteRangeRequest {
	return &pb.DeleteRangeRequest{Key: o.Key, RangeEnd: o.End, PrevKv: o.PrevKV}
}

// setUnion gives a comparison the value that its target has.
func setUnion(c *pb.Compare, n int64, value []byte) {
	c.TargetUnion = nil
	switch c.Target {
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: n}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: n}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: n}
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: value}
	case pb.Compare_LEASE:
		c.TargetUnion = &pb.Compare_Lease{Lease: n}
	}
}

// even gives a message what it may leave out, as etcd's getters do.
func even(req *pb.InternalRaftRequest) {
	if a := req.ClusterMemberAttrSet; a != nil && a.MemberAttributes == nil {
		a.MemberAttributes = &membershippb.Attributes{}
	}
	if a := req.AuthUserAdd; a != nil && a.Options == nil {
		a.Options = &authpb.UserAddOptions{}
	}
	if a := req.AuthRoleGrantPermission; a != nil && a.Perm == nil {
		a.Perm = &authpb.Permission{}
	}
	if req.Txn != nil {
		evenTxn(req.Txn)
	}
}

func evenTxn(t *pb.TxnRequest) {
	for _, c := range t.Compare {
		n := map[pb.Compare_CompareTarget]int64{pb.Compare_VERSION: c.GetVersion(), pb.Compare_CREATE: c.GetCreateRevision(),
			pb.Compare_MOD: c.GetModRevision(), pb.Compare_LEASE: c.GetLease()}[c.Target]
		setUnion(c, n, c.GetValue())
	}
	for _, o := range append(t.Success, t.Failure...) {
		if nested := o.GetRequestTxn(); nested != nil {
			evenTxn(nested)
		}
	}
}

// number is enum, backwards.
func number(name string, names ...string) (n int32) {
	for i, s := range names {
		if s == name {
			return int32(i)
		}
	}
	fmt.Sscan(name, &n)
	return n
}
