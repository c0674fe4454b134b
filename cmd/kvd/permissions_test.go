package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// The users of the test, each of whom may a little more than the one before.
const (
	nobody   = ""         // gives no user at all
	anyone   = "anyone"   // has no role
	registry = "registry" // reads the keys below /registry/
	reader   = "reader"   // reads every key
	writer   = "writer"   // reads and writes every key
	root     = "root"
)

// roleNames are what docs/permissions.md calls them.
func roleNames() map[string]string {
	return map[string]string{
		anyone: "any user", registry: "read on the keys concerned", reader: "read on all keys",
		writer: "read on all keys, write on those concerned", root: "`root`",
	}
}

// need is the least that a command takes.
type need struct {
	command string
	shown   string // what the page calls it, if more than the command
	args    string
	works   string // this user is enough
	denied  string // and this one, who may a little less, is not
	dry     string // enough for --dry-run
	before  func(p *permissions, t *testing.T)
	during  func(p *permissions, t *testing.T)
	finds   string // the verdict on whoever asks, may he or not: the command ends with 3
	partly  bool   // what it may do without comes first: it ends with 6
	long    bool   // takes three members, or its time
}

func (n need) name() string {
	if n.shown != "" {
		return n.shown
	}
	return n.command
}

// neededRoles lists every live command. Words in capitals are filled in.
func neededRoles() []need {
	return []need{
		{command: "status", works: anyone, denied: nobody},
		{command: "quota", works: reader, denied: registry},
		{command: "quota", shown: "quota --prefix PREFIX", args: "--prefix /registry/", works: reader, denied: registry},
		{command: "quota", shown: "quota --members-only", args: "--members-only", works: anyone, denied: nobody},
		{command: "alarm list", works: anyone, denied: nobody},
		{command: "lease list", works: registry, denied: anyone},
		{command: "lease list", shown: "lease list --keys", args: "--keys", works: reader, denied: registry},
		{command: "lease show", args: "LEASE", works: registry, denied: anyone},
		{command: "lease revoke", args: "DOOMED --yes", works: writer, denied: registry, dry: registry, before: (*permissions).doomLease},
		{command: "lease revoke", shown: "lease revoke --without-keys", args: "--without-keys --yes", works: registry, denied: anyone, dry: registry, before: (*permissions).leaveLease},
		{command: "keys usage", works: reader, denied: registry},
		{command: "keys usage", shown: "keys usage --watch TIME", args: "--watch 1s", works: reader, denied: registry},
		{command: "keys list", args: "--prefix /registry/", works: reader, denied: registry},
		{command: "keys get", args: "/registry/events/default/a", works: reader, denied: registry},
		{command: "keys history", args: "/registry/events/default/a", works: reader, denied: registry},
		{command: "explain write", args: "/registry/a --size 100", works: anyone, denied: nobody, finds: "write_refused_at_permission"},
		{command: "diagnose", args: "--interval 1s --fail-on none", works: reader, denied: registry, partly: true},
		{command: "snapshot save", args: "DEST", works: root, denied: writer},
		{command: "diff", args: "@head @head", works: reader, denied: registry},
		{command: "diff", shown: "diff member:A member:B --hash", args: "member:m1 member:m1 --hash", works: root, denied: writer},
		{command: "member list", works: anyone, denied: nobody},
		{command: "keys delete", args: "--prefix app/ --snapshot DEST --yes", works: root, denied: writer, dry: reader, before: (*permissions).putDoomed},
		{command: "keys delete", shown: "keys delete --no-snapshot", args: "--prefix app/ --no-snapshot --yes", works: writer, denied: reader, dry: reader,
			before: (*permissions).putDoomed},
		{command: "compact", args: "--keep-revisions 3 --yes", works: root, denied: writer, dry: reader},
		{command: "defrag", args: "--min-gain 0 --settle 0s --yes", works: root, denied: writer, dry: anyone},
		{command: "alarm disarm", args: "--yes", works: root, denied: writer, dry: anyone, before: (*permissions).raiseNospace},
		{command: "alarm recover", args: "--yes", works: root, denied: writer, dry: reader, before: (*permissions).piledUp, long: true},
		{command: "loadgen k8s-heartbeats", args: "--nodes 3 --period 200ms --duration 300ms --warmup 0s --max-lag 1m --beside-kubernetes", works: writer, denied: reader},
		{command: "loadgen k8s-objects", args: "--size 1KiB --objects 5 --nodes 0 --duration 300ms --warmup 0s --max-lag 1m --beside-kubernetes", works: writer, denied: reader},
		{command: "loadgen k8s-list", args: "--objects 20 --nodes 0 --period 100ms --duration 300ms --warmup 0s --max-lag 1m --beside-kubernetes", works: writer, denied: reader},
		{command: "loadgen k8s-endpoints", args: "--pods 5 --nodes 0 --duration 300ms --warmup 0s --max-lag 1m --beside-kubernetes", works: writer, denied: reader},
		{command: "loadgen k8s-events", args: "--sources 2 --nodes 2 --rate 20 --duration 300ms --warmup 0s --max-lag 1m --beside-kubernetes", works: writer, denied: reader},
		{command: "loadgen k8s-watch", args: "--informers 2 --objects 5 --rate 20 --nodes 0 --duration 300ms --warmup 0s --max-lag 1m --beside-kubernetes", works: writer, denied: reader},
		{command: "loadgen k8s-pods", args: "--rate 20 --step 100ms --nodes 0 --duration 300ms --warmup 0s --max-lag 1m --beside-kubernetes", works: writer, denied: reader},
		{command: "loadgen k8s-relist", args: "--objects 5 --kinds 2 --nodes 0 --duration 300ms --warmup 0s --max-lag 1m --beside-kubernetes", works: writer, denied: reader},
		{command: "loadgen k8s-cluster", args: "--nodes 2 --pods-per-node 1 --kinds 7 --time-scale 60 --duration 300ms --warmup 0s --max-lag 1m --beside-kubernetes", works: writer, denied: reader},
		{command: "loadgen clean", shown: "loadgen clean --compact=false", args: "--compact=false", works: writer, denied: reader, dry: reader},
		{command: "loadgen clean", shown: "loadgen clean --compact", args: "--compact", works: root, denied: writer, dry: reader, before: (*permissions).leftByALoad, partly: true},
		{command: "member move-leader", args: "--yes", works: root, denied: writer, dry: anyone, long: true},
		{command: "member add", args: "NEW --peer-urls PEER --no-wait --yes", works: root, denied: writer, dry: anyone, before: (*permissions).reserve},
		{command: "member promote", args: "NEW --yes", works: root, denied: writer, dry: anyone, before: (*permissions).startNew, partly: true, long: true},
		{command: "member replace", args: "OLD --new-name NEW --peer-urls PEER --client-urls CLIENT --state-dir TMP --yes", works: root, denied: writer,
			dry: anyone, before: (*permissions).reserveAnother, during: (*permissions).startOnceAdded, long: true},
		{command: "member remove", args: "ID --yes", works: root, denied: writer, dry: anyone, before: (*permissions).findNew},
		{command: "member update", args: "m1 --peer-urls http://127.0.0.1:1 --no-wait --yes", works: root, denied: writer, dry: anyone},
	}
}

// Every command works with the least role that docs/permissions.md names, and
// says what is missing to whoever has less. TestPermissionsOnThreeMembers tries
// what takes longer.
func TestPermissions_more(t *testing.T) {
	t.Parallel()
	tryPermissions(t, 1, func(n need) bool { return !n.long })
}

func tryPermissions(t *testing.T, members int, which func(need) bool) {
	p := newPermissions(t, members)
	for _, n := range neededRoles() {
		if !which(n) {
			continue
		}
		if n.before != nil {
			n.before(p, t)
		}
		cause := "permission_denied"
		if n.denied == nobody {
			cause = "auth_required"
		}
		exit := 8
		if n.partly {
			exit = 6
		}
		works := 0
		if n.finds != "" {
			exit, cause, works = 3, n.finds, 3
		}
		p.as(n.denied, exit, cause).run(t, p.line(t, n))
		if n.dry != "" {
			p.as(n.dry, 0, "").run(t, append(p.line(t, n), "--dry-run"))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if n.during != nil {
				n.during(p, t)
			}
		}()
		p.as(n.works, works, n.finds).run(t, p.line(t, n))
		<-done
	}
}

// permissions is a cluster with authentication on.
type permissions struct {
	*servertest.Cluster

	lease  clientv3.LeaseID
	doomed clientv3.LeaseID // the one that is revoked
	joins  int              // the member that is added
	newID  uint64           // and its ID
	leaves int              // the one that it replaces
}

func newPermissions(t *testing.T, members int) *permissions {
	p := &permissions{}
	p.Cluster = servertest.Start(t, servertest.Options{Options: local.Options{
		Members: members, QuotaBytes: 16 << 20, Args: []string{"--bcrypt-cost=4"}}})
	cli, ctx := p.Client(t), servertest.Context(t, 60*time.Second)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 9 {
		must(cli.Put(ctx, "other", "v"))
	}
	lease, err := cli.Grant(ctx, 3600)
	must(nil, err)
	p.lease = lease.ID
	must(cli.Put(ctx, "/registry/events/default/a", "v", clientv3.WithLease(p.lease)))
	for _, u := range []struct {
		name, key, end string
		perm           clientv3.PermissionType
	}{
		{anyone, "", "", 0},
		{registry, "/registry/", clientv3.GetPrefixRangeEnd("/registry/"), clientv3.PermissionType(clientv3.PermRead)},
		{reader, "\x00", "\x00", clientv3.PermissionType(clientv3.PermRead)},
		{writer, "\x00", "\x00", clientv3.PermissionType(clientv3.PermReadWrite)},
	} {
		must(cli.UserAdd(ctx, u.name, u.name+"-pw"))
		if u.key != "" {
			must(cli.RoleAdd(ctx, u.name))
			must(cli.RoleGrantPermission(ctx, u.name, u.key, u.end, u.perm))
			must(cli.UserGrantRole(ctx, u.name, u.name))
		}
	}
	p.EnableAuth(t)
	return p
}

// as is who knocks, and what is expected.
func (p *permissions) as(user string, exit int, cause string) identity {
	id := identity{name: user, exit: exit, cause: cause}
	var where []string
	for i := range p.Len() {
		if p.Running(i) {
			where = append(where, p.Endpoint(i))
		}
	}
	id.args = []string{"--endpoints", strings.Join(where, ",")}
	switch user {
	case nobody:
	case root:
		id.args = append(id.args, "--user", root+":"+servertest.RootPassword)
	default:
		id.args = append(id.args, "--user", user+":"+user+"-pw")
	}
	return id
}

// line fills in what a command needs to know.
func (p *permissions) line(t *testing.T, n need) []string {
	words := strings.Fields(n.command + " " + n.args)
	for i, w := range words {
		switch w {
		case "LEASE":
			words[i] = fmt.Sprintf("%x", p.lease)
		case "DOOMED":
			words[i] = fmt.Sprintf("%x", p.doomed)
		case "NEW":
			words[i] = p.Name(p.joins)
		case "OLD":
			words[i] = p.Name(p.leaves)
		case "CLIENT":
			words[i] = p.Endpoint(p.joins)
		case "TMP":
			words[i] = t.TempDir()
		case "DEST":
			words[i] = filepath.Join(t.TempDir(), "s.db")
		case "PEER":
			words[i] = p.PeerURL(p.joins)
		case "ID":
			words[i] = fmt.Sprintf("%x", p.newID)
		}
	}
	return words
}

func (p *permissions) putDoomed(t *testing.T) {
	if _, err := p.Client(t).Put(servertest.Context(t, 60*time.Second), "app/doomed", "v"); err != nil {
		t.Fatal(err)
	}
}

// doomLease makes a lease with a key, leaveLease one without.
func (p *permissions) doomLease(t *testing.T) {
	p.leaveLease(t)
	if _, err := p.Client(t).Put(servertest.Context(t, 60*time.Second), "/registry/events/default/doomed", "v", clientv3.WithLease(p.doomed)); err != nil {
		t.Fatal(err)
	}
}

func (p *permissions) leaveLease(t *testing.T) {
	l, err := p.Client(t).Grant(servertest.Context(t, 60*time.Second), 3600)
	if err != nil {
		t.Fatal(err)
	}
	p.doomed = l.ID
}

func (p *permissions) raiseNospace(t *testing.T) {
	cli, ctx := p.Client(t), servertest.Context(t, 60*time.Second)
	_, err := etcdserverpb.NewMaintenanceClient(cli.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: p.members(t)[0].ID, Alarm: etcdserverpb.AlarmType_NOSPACE})
	if err != nil {
		t.Fatal(err)
	}
}

// piledUp raises the alarm with history that is worth compacting.
func (p *permissions) piledUp(t *testing.T) {
	cli, value := p.Client(t), strings.Repeat("v", 100<<10)
	for range 100 {
		if _, err := cli.Put(servertest.Context(t, 60*time.Second), "other", value); err != nil {
			t.Fatal(err)
		}
	}
	p.raiseNospace(t)
}

// leftByALoad is something to clean, so that there is something to compact.
func (p *permissions) leftByALoad(t *testing.T) {
	if _, err := p.Client(t).Put(servertest.Context(t, 60*time.Second), loadgen.Root+"registry/configmaps/a/b", "v"); err != nil {
		t.Fatal(err)
	}
}

func (p *permissions) reserve(t *testing.T) {
	var err error
	if p.joins, err = p.Reserve(); err != nil {
		t.Fatal(err)
	}
}

func (p *permissions) startNew(t *testing.T) {
	if err := p.StartMember(t.Context(), p.joins); err != nil {
		t.Fatal(err)
	}
}

func (p *permissions) reserveAnother(t *testing.T) {
	p.leaves = p.joins
	p.reserve(t)
}

func (p *permissions) startOnceAdded(t *testing.T) { startWhenListed(t, p.Cluster, p.joins) }

// startWhenListed starts a member as soon as it is in the member list.
func startWhenListed(t *testing.T, c *servertest.Cluster, i int) {
	ctx := servertest.Context(t, 90*time.Second)
	cli := c.Client(t, c.Endpoint(0))
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := cli.MemberList(ctx)
		if err == nil && slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return slices.Contains(m.PeerURLs, c.PeerURL(i)) }) {
			if err := c.StartMember(ctx, i); err != nil {
				t.Error(err)
			}
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Errorf("%s was not added: %v", c.Name(i), err)
			return
		}
	}
}

func (p *permissions) findNew(t *testing.T) {
	for _, m := range p.members(t) {
		if slices.Contains(m.PeerURLs, p.PeerURL(p.joins)) {
			p.newID = m.ID
		}
	}
	if p.newID == 0 {
		t.Fatal("the member that was added is not in the list")
	}
}

func (p *permissions) members(t *testing.T) []*etcdserverpb.Member {
	t.Helper()
	list, err := p.Client(t, p.Endpoint(0)).MemberList(servertest.Context(t, 60*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return list.Members
}

// The page names for each command the role with which it was tried.
func TestPermissionsPage(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(repoRoot, "docs", "permissions.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range neededRoles() {
		if row := fmt.Sprintf("| `%s` | %s |", n.name(), roleNames()[n.works]); !strings.Contains(string(raw), row) {
			t.Errorf("docs/permissions.md has no row %q", row)
		}
	}
}
