//go:build long

package diagnose_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Two versions of which one asks for a permission that the other does not ask for: the
// danger is told before the request that parts them, and of what it leaves behind.
func TestCaseVersionsApplyDifferently(t *testing.T) {
	t.Parallel()
	either := filepath.Join(t.TempDir(), "etcd")
	script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *' --name=m3 '*|*' --name m3 '*) exec %q \"$@\" ;; esac\nexec %q \"$@\"\n", servertest.OldServer(t, "3.5"), servertest.OldServer(t, "3.4"))
	if err := os.WriteFile(either, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Command: local.Command{Path: either}}})
	ctx := servertest.Context(t, time.Minute)
	client := c.Client(t, c.Endpoint(0)) // 3.5 sends on the hash of a password, and not the password that 3.4 makes one of
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := client.UserAdd(ctx, "root", "root")
	must(nil, err)
	must(client.UserGrantRole(ctx, "root", "root"))
	must(client.UserAdd(ctx, "app", "app"))
	must(client.RoleAdd(ctx, "app"))
	must(client.RoleGrantPermission(ctx, "app", "/app/", clientv3.GetPrefixRangeEnd("/app/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(client.UserGrantRole(ctx, "app", "app"))
	lease, err := client.Grant(ctx, 3600)
	must(nil, err)
	must(client.Put(ctx, "/other", "v", clientv3.WithLease(lease.ID)))
	if told := strings.Join(of(look(t, connect(t, c)), "KVD-VERSION-001"), "\n"); strings.Contains(told, "different data") {
		t.Errorf("without authentication: %s", told)
	}
	in, err := diagnose.Collect(ctx, connect(t, c), options(), discard)
	must(nil, err)
	in.Auth = &diagnose.Auth{Enabled: true, Users: []diagnose.AuthUser{{Name: "app", Roles: []string{"app"}}}} // as it is from here on
	if told := strings.Join(of(diagnose.Diagnose(in), "KVD-VERSION-001"), "\n"); !strings.Contains(told, "is carried out by m1 and m2 and refused by m3") {
		t.Errorf("%s", told)
	}
	must(client.AuthEnable(ctx))
	app, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Endpoint(0)}, Username: "app", Password: "app"})
	must(nil, err)
	defer app.Close() //nolint:errcheck // only a test's client
	if _, err := app.Put(ctx, "/app/a", "v", clientv3.WithLease(lease.ID)); err == nil {
		t.Fatal("a put alone was permitted")
	}
	must(app.Txn(ctx).Then(clientv3.OpPut("/app/a", "v", clientv3.WithLease(lease.ID))).Commit())
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Endpoint(0)}, Username: "root", Password: "root"})
	must(nil, err)
	defer root.Close() //nolint:errcheck // only a test's client
	must(root.AuthDisable(ctx))
	var told string
	waitFor(t, func() bool {
		told = strings.Join(of(look(t, connect(t, c)), "KVD-CORRUPT-002"), "\n")
		return told != ""
	})
	if !strings.Contains(told, "or of requests that 3.4.23 and 3.5.") {
		t.Errorf("%s", told)
	}
}
