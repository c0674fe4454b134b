package local

import (
	"context"
	"path/filepath"
)

// Len is the number of members, also of those that do not run.
func (c *Cluster) Len() int { return len(c.all()) }

// Root is the folder that holds the members' folders.
func (c *Cluster) Root() string { return c.root }

// TLS is the certificates the cluster was started with, or nil.
func (c *Cluster) TLS() *TLS { return c.opts.TLS }

// Endpoints are the client URLs of all members that were not forgotten.
func (c *Cluster) Endpoints() []string {
	var eps []string
	for _, m := range c.all() {
		if !m.isForgotten() {
			eps = append(eps, m.clientURL)
		}
	}
	return eps
}

// Endpoint is the client URL of member i.
func (c *Cluster) Endpoint(i int) string { return c.member(i).clientURL }

// PeerURL is the peer URL of member i.
func (c *Cluster) PeerURL(i int) string { return c.member(i).peerURL }

// MetricsURL serves /metrics and /health of member i, without TLS.
func (c *Cluster) MetricsURL(i int) string { return c.member(i).metricsURL }

// Name is the name of member i.
func (c *Cluster) Name(i int) string { return c.member(i).name }

// Dir is the folder of member i, with its data directory and its log.
func (c *Cluster) Dir(i int) string { return c.member(i).dir }

// DataDir is the --data-dir of member i.
func (c *Cluster) DataDir(i int) string { return c.member(i).dataDir() }

// DBPath is the backend file of member i.
func (c *Cluster) DBPath(i int) string {
	return filepath.Join(c.member(i).dataDir(), "member", "snap", "db")
}

// LogPath is the file that gets stdout and stderr of member i, over all its
// starts.
func (c *Cluster) LogPath(i int) string { return c.member(i).logPath() }

// LogTail is the last lines of member i's log, at most n.
func (c *Cluster) LogTail(i, n int) string { return tail(c.member(i).logPath(), n) }

// PID is the process of member i, 0 if it does not run.
func (c *Cluster) PID(i int) int { return c.member(i).pid() }

// Running says whether the process of member i exists (it may be paused).
func (c *Cluster) Running(i int) bool { return c.member(i).running() }

// Exited is closed when the process of member i, as of now, has ended and was
// reaped. For a member that never ran it is closed already.
func (c *Cluster) Exited(i int) <-chan struct{} { return c.member(i).exited() }

// ExitCode is how the last process of member i ended: its exit code, -1 for a
// signal. The second value is false while it runs or if it never did.
func (c *Cluster) ExitCode(i int) (int, bool) { return c.member(i).exitCode() }

// StartMember starts member i, which does not run, and waits until it is ready
// (see WaitReady) or has ended. args, if any, come behind all other flags and
// stay for later starts. A member that has no data joins the cluster that the
// others bootstrap or have bootstrapped.
func (c *Cluster) StartMember(ctx context.Context, i int, args ...string) error {
	if err := c.Launch(i, args...); err != nil {
		return err
	}
	return c.waitMember(ctx, i)
}

// Launch is StartMember without the wait, for members that cannot become ready
// alone.
func (c *Cluster) Launch(i int, args ...string) error {
	m := c.member(i)
	m.setExtra(args)
	return m.launch(m.initialState(), c.initialCluster())
}

// Restart stops member i if it runs (SIGTERM) and starts it again.
func (c *Cluster) Restart(ctx context.Context, i int, args ...string) error {
	if m := c.member(i); m.running() {
		if err := m.stop(ctx); err != nil {
			return err
		}
	}
	return c.StartMember(ctx, i, args...)
}

func (c *Cluster) waitMember(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.ReadyTimeout)
	defer cancel()
	m := c.member(i)
	if err := m.waitJoined(ctx); err != nil {
		return err
	}
	return m.waitHealthy(ctx)
}

// Reserve adds a member that the cluster does not know yet and returns its
// index. The caller adds PeerURL(i) to the cluster (as a learner or a voter) and
// then calls StartMember, which joins it.
func (c *Cluster) Reserve() (int, error) {
	if err := c.addMembers(1); err != nil {
		return 0, err
	}
	i := c.Len() - 1
	c.member(i).joins()
	return i, nil
}

// Forget leaves member i out of Endpoints and out of the initial cluster of
// members that join later, after it was removed from the cluster. Its process is
// not touched.
func (c *Cluster) Forget(i int) { c.member(i).forget() }

// StopMember stops member i with SIGTERM; see Stop.
func (c *Cluster) StopMember(ctx context.Context, i int) error { return c.member(i).stop(ctx) }

// Terminate sends SIGTERM to member i and does not wait.
func (c *Cluster) Terminate(i int) error { return c.member(i).terminate() }

// Kill ends member i with SIGKILL and waits until it is gone.
func (c *Cluster) Kill(i int) { c.member(i).kill() }

// Pause freezes member i with SIGSTOP: its sockets stay open and nothing answers.
func (c *Cluster) Pause(i int) error { return c.member(i).pause() }

// Resume ends a Pause.
func (c *Cluster) Resume(i int) error { return c.member(i).resume() }
