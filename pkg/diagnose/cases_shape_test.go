package diagnose_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// shape is what cluster a case is built on. The zero value is one member of kvd's own
// etcd without TLS and users.
type shape struct {
	members int
	quota   int64
	mtls    bool // clients and peers show certificates
	auth    bool // and users have passwords
	version string
	args    []string
	each    func(i int) []string // further flags of one member
	fsync   bool                 // what is held goes with the test, so that nothing need be flushed, unless that matters
	cut     bool                 // members can be cut off
	dir     string
}

// options of a cluster of this shape. etcd before 3.5 always flushes.
func (s shape) options(t *testing.T) servertest.Options {
	t.Helper()
	o := local.Options{Members: max(1, s.members), QuotaBytes: s.quota, Args: s.args, MemberArgs: s.each, Cuttable: s.cut, Dir: s.dir}
	if !s.fsync && s.version != "3.4" {
		o.Args = append([]string{"--unsafe-no-fsync"}, s.args...)
	}
	if s.version != "" {
		o.Command = local.Command{Path: servertest.OldServer(t, s.version)}
	}
	if s.mtls {
		o.TLS = servertest.NewCerts(t).MutualTLS()
	}
	return servertest.Options{Options: o}
}

// start starts it.
func (s shape) start(t *testing.T) *servertest.Cluster {
	t.Helper()
	c := servertest.Start(t, s.options(t))
	if s.auth {
		c.EnableAuth(t)
	}
	return c
}

// begin starts a cluster of kvd's own etcd without TLS and users.
func begin(t *testing.T, members int, quota int64, args ...string) *servertest.Cluster {
	t.Helper()
	return shape{members: members, quota: quota, args: args}.start(t)
}

// notStarted is a cluster none of whose members runs.
func notStarted(t *testing.T, members int) *servertest.Cluster {
	t.Helper()
	return servertest.New(t, shape{members: members}.options(t))
}

// besideOthers runs a parameter set side by side with others, and one that takes
// seconds only where those are asked for.
func besideOthers(t *testing.T, takesLong bool) {
	t.Helper()
	if takesLong && !slow {
		t.Skip("takes seconds: -tags long")
	}
	t.Parallel()
}

// role is a member by what it does.
type role string

const (
	leader   role = "leader"
	follower role = "follower"
)

// pick finds a member of a role.
func pick(t *testing.T, c *servertest.Cluster, r role) int {
	t.Helper()
	if c.Len() == 1 {
		return 0
	}
	l := c.Leader(t)
	if r == leader {
		return l
	}
	return (l + 1) % c.Len()
}

// kvd runs the real binary.
func kvd(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(servertest.Context(t, 2*time.Minute), servertest.Binary(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kvd %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// kvdOn runs it on a cluster, as who may do everything there.
func kvdOn(t *testing.T, c *servertest.Cluster, args ...string) string {
	t.Helper()
	args = append(args, "--endpoints", strings.Join(c.Endpoints(), ","))
	if tls := c.TLS(); tls != nil {
		args = append(args, "--cacert", tls.CA, "--cert", tls.ClientCert, "--key", tls.ClientKey)
	}
	if user, password := c.Account(); user != "" {
		args = append(args, "--user", user+":"+password)
	}
	return kvd(t, args...)
}
