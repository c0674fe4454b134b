// Package local runs etcd members as child processes on loopback: throwaway
// clusters for drills, boot checks of restored data, and tests. The members are
// real `kvd serve` processes (or any etcd binary), never servers inside this
// process, so that they can be killed, paused and measured one by one.
//
// Children die with the process that started them, unless Options.Detach says
// otherwise, and none is left unreaped.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"kvd/pkg/ops/fault"
)

// Command is the program that a member runs.
type Command struct {
	Path string   // the executable; default: this one
	Args []string // what stands before etcd's flags; default "serve" where Path is the default
	Env  []string // NAME=value, added to this process's environment
}

// TLS is the certificates of a cluster, as paths of PEM files.
type TLS struct {
	CA, Cert, Key         string // of the servers
	ClientAuth            bool   // clients must show a certificate signed by CA
	Peers                 bool   // members talk to each other with the same certificate
	ClientCert, ClientKey string // for whoever connects; the cluster itself does not use them
}

// Options says what cluster to start. The zero value is one member without TLS
// in a temporary folder.
type Options struct {
	Members      int                  // members that bootstrap the cluster; default 1
	Command      Command              // what to run
	Dir          string               // each member gets DIR/NAME; default: a new temporary folder, which Close removes
	QuotaBytes   int64                // --quota-backend-bytes; 0 leaves etcd's default
	Args         []string             // further flags for every member
	MemberArgs   func(i int) []string // further flags for one, behind Args
	TLS          *TLS
	ReadyTimeout time.Duration // how long a start may take; default 60 s
	StopGrace    time.Duration // from SIGTERM to SIGKILL; default 20 s
	Detach       bool          // the members outlive this process
	Cuttable     bool          // see Cut; the members then reach each other through this process, and only while it lives
}

// DefaultReadyTimeout and DefaultStopGrace are used where Options leaves them 0.
const (
	DefaultReadyTimeout = 60 * time.Second
	DefaultStopGrace    = 20 * time.Second
)

// Cluster is a set of members, running or not. Members are named by their index,
// in the order in which they came. Its methods may be called from any goroutine.
type Cluster struct {
	opts    Options
	root    string
	ownRoot bool
	lock    *os.File // of the temporary folder, see makeTemp

	mu      sync.Mutex
	members []*member
	claims  []io.Closer // of ports, see claim
}

// portTries is how often a start is repeated because another process took a
// port between our choosing it and the member's listening on it.
const portTries = 5

// Start starts a cluster and waits until every member has joined and serves
// linearizable reads. On failure nothing is left running. Errors are *fault.Error
// and carry the member's own last words from its log.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		err = c.startAll(ctx)
		if err == nil {
			return c, nil
		}
		c.killAll()
		if fault.CauseOf(err) != causePort || try == portTries {
			break
		}
		if err2 := c.renew(); err2 != nil {
			err = errors.Join(err, err2)
			break
		}
	}
	return nil, errors.Join(err, c.Close())
}

// New prepares a cluster without starting any member: StartMember does that, one
// by one. Folders are made and ports are chosen.
func New(o Options) (*Cluster, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	c := &Cluster{opts: o, root: o.Dir}
	var err error
	switch c.ownRoot = o.Dir == ""; {
	case !c.ownRoot:
		err = os.MkdirAll(c.root, 0o700)
	case o.Detach: // nobody removes it
		c.root, err = os.MkdirTemp("", tempPrefix)
	default:
		c.root, c.lock, err = makeTemp()
	}
	if err != nil {
		return nil, failed("prepare", "", err, "a folder for the members' data could not be made", "check free space and permissions, or name another folder with TMPDIR: an image without /tmp, or with a read-only root, has none")
	}
	if c.root, err = filepath.Abs(c.root); err != nil {
		return nil, errors.Join(failed("prepare", c.root, err, "", ""), c.Close())
	}
	if err := c.addMembers(o.Members); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (o *Options) complete() error {
	if o.Members == 0 {
		o.Members = 1
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = DefaultReadyTimeout
	}
	if o.StopGrace == 0 {
		o.StopGrace = DefaultStopGrace
	}
	if o.Command.Path == "" {
		self, err := os.Executable()
		if err != nil {
			return failed("prepare", "", err, "kvd's own executable was not found", "")
		}
		o.Command.Path = self
		if o.Command.Args == nil {
			o.Command.Args = []string{"serve"}
		}
	}
	return nil
}

// addMembers appends n members with folders and ports of their own.
func (c *Cluster) addMembers(n int) error {
	ports, err := c.takePorts(3 * n)
	if err != nil {
		return failed("prepare", "", err, "no free ports on loopback", "")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range n {
		i := len(c.members)
		m := &member{cluster: c, name: fmt.Sprintf("m%d", i+1)}
		m.dir = filepath.Join(c.root, m.name)
		if c.opts.Cuttable {
			if err := m.openGate(); err != nil {
				return err
			}
		}
		m.setPorts(ports[3*k:3*k+3], c.opts.TLS)
		if c.opts.MemberArgs != nil {
			m.extra = c.opts.MemberArgs(i)
		}
		if err := os.MkdirAll(m.dir, 0o700); err != nil {
			return failed("prepare", m.name, err, "its folder could not be made", "")
		}
		c.members = append(c.members, m)
	}
	return nil
}

// renew chooses new ports and empties the folders, after a failed first start.
func (c *Cluster) renew() error {
	members := c.all()
	ports, err := c.takePorts(3 * len(members))
	if err != nil {
		return failed("prepare", "", err, "no free ports on loopback", "")
	}
	for i, m := range members {
		if err := os.RemoveAll(m.dataDir()); err != nil {
			return failed("prepare", m.name, err, "its folder could not be emptied", "")
		}
		m.setPorts(ports[3*i:3*i+3], c.opts.TLS)
	}
	return nil
}

// startAll starts every member at once, since none is ready before a quorum is
// there, and waits for all.
func (c *Cluster) startAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.ReadyTimeout)
	defer cancel()
	initial := c.initialCluster()
	for _, m := range c.all() {
		if err := m.launch(stateNew, initial); err != nil {
			return err
		}
	}
	// All of them, not those that still run: a process that has ended already is a
	// failed start.
	return waitReady(ctx, c.all())
}

// WaitReady waits until every running member has joined and serves linearizable
// reads, so that each knows the name and the client URLs of all.
func (c *Cluster) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.ReadyTimeout)
	defer cancel()
	var running []*member
	for _, m := range c.all() {
		if m.running() {
			running = append(running, m)
		}
	}
	return waitReady(ctx, running)
}

func waitReady(ctx context.Context, members []*member) error {
	// First all of them, then a linearizable read on each: what a member serves
	// after that contains what the others published about themselves.
	for _, m := range members {
		if err := m.waitJoined(ctx); err != nil {
			return err
		}
	}
	for _, m := range members {
		if err := m.waitHealthy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops every member in order with SIGTERM, and with SIGKILL those that have
// not ended within Options.StopGrace or when ctx ends. It returns an error where
// a member had to be killed or did not exit with 0. Folders stay.
func (c *Cluster) Stop(ctx context.Context) error {
	var errs []error
	for _, m := range c.all() {
		if m.running() {
			errs = append(errs, m.stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// Close kills what still runs and removes the folder if it was a temporary one
// of ours. For an orderly end call Stop before.
func (c *Cluster) Close() error {
	c.killAll()
	c.closeGates()
	c.dropClaims()
	if !c.ownRoot {
		return nil
	}
	err := os.RemoveAll(c.root)
	if c.lock != nil {
		err = errors.Join(err, c.lock.Close())
		c.lock = nil
	}
	return err
}

func (c *Cluster) killAll() {
	for _, m := range c.all() {
		m.kill()
	}
}

func (c *Cluster) all() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

func (c *Cluster) member(i int) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[i]
}

// initialCluster is the value of --initial-cluster: every member that was not
// forgotten.
func (c *Cluster) initialCluster() string {
	s := ""
	for _, m := range c.all() {
		if m.isForgotten() {
			continue
		}
		if s != "" {
			s += ","
		}
		s += m.name + "=" + m.peerURL
	}
	return s
}
