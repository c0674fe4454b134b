package servertest

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// RootPassword is the password of root after EnableAuth.
const RootPassword = "root-pw"

// User is an account with read and write access to the keys with one prefix.
// Without a password it gets in by the common name of a certificate only.
type User struct{ Name, Password, Prefix string }

// EnableAuth makes root, the given users with a role each, and turns
// authentication on. Client uses root from then on.
func (c *Cluster) EnableAuth(tb testing.TB, users ...User) {
	tb.Helper()
	ctx := Context(tb, 30*time.Second)
	cli := c.Client(tb)
	must := func(what string, err error) {
		tb.Helper()
		if err != nil {
			tb.Fatalf("enabling auth: %s: %v", what, err)
		}
	}
	_, err := cli.RoleAdd(ctx, "root")
	must("role root", err)
	_, err = cli.UserAdd(ctx, "root", RootPassword)
	must("user root", err)
	_, err = cli.UserGrantRole(ctx, "root", "root")
	must("grant root", err)
	for _, u := range users {
		role := "role-" + u.Name
		_, err = cli.RoleAdd(ctx, role)
		must(role, err)
		_, err = cli.RoleGrantPermission(ctx, role, u.Prefix, clientv3.GetPrefixRangeEnd(u.Prefix),
			clientv3.PermissionType(clientv3.PermReadWrite))
		must(role, err)
		_, err = cli.UserAddWithOptions(ctx, u.Name, u.Password, &clientv3.UserAddOptions{NoPassword: u.Password == ""})
		must(u.Name, err)
		_, err = cli.UserGrantRole(ctx, u.Name, role)
		must(u.Name, err)
	}
	_, err = cli.AuthEnable(ctx)
	must("enable", err)
	c.user, c.password = "root", RootPassword
}

// Account is the user and the password that Client uses, empty before EnableAuth.
func (c *Cluster) Account() (user, password string) { return c.user, c.password }
