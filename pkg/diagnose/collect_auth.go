package diagnose

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
)

// untouchedAuth is the revision of a store of users in which nothing was ever set up
// (NewAuthStore in server/auth/store.go).
const untouchedAuth = 1

// rootRole is the role that may do everything (UserGrantRole in server/auth/store.go
// grants it to the user of that name whether it is there or not).
const rootRole = "root"

// users reads who may do what, where anything was set up: the revision of the store is
// among the metrics. Unlike all else these requests go through the log, so that they are
// not sent without a leader; and only root may send them.
func (c *collector) users(ctx context.Context, v cluster.View) {
	touched := false
	for _, s := range c.in.Now.Metrics {
		rev, _ := s.Value("etcd_debugging_auth_revision", nil)
		touched = touched || rev > untouchedAuth
	}
	if len(c.in.Now.Metrics) == 0 {
		c.leftOut(NeedAuth, "whether there are users is told by the metrics, which are not there", "--metrics-url NAME=URL")
	}
	if !touched {
		return
	}
	m, ok := v.LeaderMember()
	if !ok || m.Status == nil {
		c.miss(NeedAuth, "", "there is no leader, and users are not told without one", "see KVD-RAFT-001")
		return
	}
	mc, err := c.client.Member(m.ID)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, c.client.Config().CommandTimeout)
		defer cancel()
		err = c.askUsers(ctx, mc)
	}
	if err != nil {
		c.missErr(NeedAuth, "", err)
		last := &c.in.Missing[len(c.in.Missing)-1]
		last.ByChoice, last.Denied = last.Denied, false // that kvd's user is not root is as it should be
		last.Hint = "as root: --user root; with --client-cert-auth a client certificate with the common name root is root as well, and needs no password"
	}
}

func (c *collector) askUsers(ctx context.Context, mc *cluster.MemberClient) error {
	if err := mc.Connect(ctx); err != nil {
		return err
	}
	etcd := mc.Etcd()
	n := 1
	defer func() { c.asked("AuthStatus, UserList, UserGet, RoleGet (through the log)", n) }()
	status, err := etcd.AuthStatus(ctx)
	if err != nil {
		return mc.Explain(ctx, "ask whether users are asked for passwords", err)
	}
	out := Auth{Enabled: status.Enabled, Source: "users and roles, from " + mc.Label()}
	n++
	names, err := etcd.UserList(ctx)
	if err != nil {
		return mc.Explain(ctx, "list users", err)
	}
	roles := map[string]*clientv3.AuthRoleGetResponse{}
	for _, name := range names.Users {
		n++
		u, err := etcd.UserGet(ctx, name)
		if err != nil {
			return mc.Explain(ctx, "read a user's roles", err)
		}
		user := AuthUser{Name: name, Roles: u.Roles}
		for _, role := range u.Roles {
			if role == rootRole {
				continue // it may do everything, and need not be there: a grant does not ask for it
			}
			if roles[role] == nil {
				n++
				if roles[role], err = etcd.RoleGet(ctx, role); err != nil {
					return mc.Explain(ctx, "read a role's permissions", err)
				}
			}
			user.may(roles[role])
		}
		out.Users = append(out.Users, user)
	}
	c.in.Auth = &out
	return nil
}

// may adds what a role permits.
func (u *AuthUser) may(r *clientv3.AuthRoleGetResponse) {
	for _, p := range r.Perm {
		k := KeyRange{p.Key, p.RangeEnd}
		if t := clientv3.PermissionType(p.PermType); t == clientv3.PermissionType(clientv3.PermReadWrite) {
			u.Read, u.Write = append(u.Read, k), append(u.Write, k)
		} else if t == clientv3.PermissionType(clientv3.PermWrite) {
			u.Write = append(u.Write, k)
		} else {
			u.Read = append(u.Read, k)
		}
	}
}
