package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"kvd/pkg/ops/fault"
)

// Server is a running etcd server. Its methods may be called from any goroutine.
type Server struct {
	etcd    *embed.Etcd
	cfg     *embed.Config
	log     *zap.Logger
	ready   chan struct{} // closed when the member has joined its cluster; without a quorum it does not
	failed  chan error
	stopped chan struct{} // closed when the server has ended, by itself or by Stop
	closing chan struct{} // one token: taken by the first Stop
	closed  chan struct{} // closed when that Stop's work is done
	heard   *hearing
}

// Start starts the server and returns once it listens. It has not necessarily
// joined its cluster yet: systemd is told when. Cancelling ctx gives up a start that
// is still going on; it does not stop a server that runs. A failed start may
// leave listeners and file locks behind: the process is expected to end.
//
// Errors are *fault.Error: Usage for what the configuration does wrong,
// Unavailable for an address in use or a directory that cannot be written,
// Refused where the cluster says no, Damage for files that cannot be read.
func Start(ctx context.Context, c *Config) (*Server, error) {
	cfg := c.etcd
	grpc.EnableTracing = false // as etcd's main does; SetupGlobalLoggers turns it on for debug
	if err := checkArch(); err != nil {
		return nil, err
	}

	trap, heard := newFatalTrap(), &hearing{}
	lg := trap.wrap(heard.wrap(cfg.GetLogger()))
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(lg)
	if err := cfg.ZapLoggerBuilder(cfg); err != nil {
		return nil, explainInvalid(err, "")
	}
	cfg.SetupGlobalLoggers()
	c.derive()
	lg.Info("Running: ", zap.Strings("args", c.args))
	c.sayNotes(lg)
	warnOfDates(lg, cfg, time.Now())

	if err := checkDataDir(lg, cfg.Dir); err != nil {
		return nil, err
	}
	if err := waitForDataDir(ctx, lg, cfg.Dir); err != nil {
		return nil, explainStart(cfg, err)
	}
	if err := checkWAL(ctx, cfg); err != nil {
		return nil, err
	}
	if err := checkVoters(ctx, cfg); err != nil {
		return nil, err
	}
	if err := checkForced(ctx, cfg); err != nil {
		return nil, err
	}

	e, err := startEtcd(ctx, cfg, trap)
	if err != nil {
		return nil, explainStart(cfg, heard.because(err))
	}
	s := &Server{
		etcd: e, cfg: cfg, log: lg,
		ready:   make(chan struct{}),
		failed:  make(chan error, 1),
		stopped: make(chan struct{}),
		closing: make(chan struct{}, 1),
		closed:  make(chan struct{}),
		heard:   heard,
	}
	s.closing <- struct{}{}
	go s.watchReady()
	go s.watchFailure(trap)
	return s, nil
}

// startEtcd runs embed.StartEtcd where a Fatal inside it can be caught, and
// stops waiting for it when ctx ends.
func startEtcd(ctx context.Context, cfg *embed.Config, trap *fatalTrap) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	done := make(chan result, 1)
	go func() {
		e, err := embed.StartEtcd(cfg)
		trap.started.Store(true)
		done <- result{e, err}
	}()
	select {
	case r := <-done:
		return r.etcd, r.err
	case err := <-trap.err:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *Server) watchReady() {
	select {
	case <-s.etcd.Server.ReadyNotify():
		s.notifySystemd()
		close(s.ready)
	case <-s.etcd.Server.StopNotify(): // stopped before it had joined
	}
}

// watchFailure hands out the first failure and notices that the server ended.
func (s *Server) watchFailure(trap *fatalTrap) {
	defer close(s.stopped)
	errc := s.etcd.Err()
	for {
		select {
		case err := <-trap.err:
			s.failed <- explainStart(s.cfg, err)
			return
		case err, ok := <-errc:
			if ok && err != nil && err.Error() != stoppingBeforeReady {
				s.failed <- explainStart(s.cfg, fmt.Errorf("listener failed: %w", err))
				return
			}
			errc = nil // closed, or a listener that ended in peace
		case <-s.etcd.Server.StopNotify():
			return
		}
	}
}

// stoppingBeforeReady is what embed's listeners say when the server stops before
// it has joined (etcd 3.7.3, embed/serve.go): a consequence, not a failure.
const stoppingBeforeReady = "server is stopping"

// Err delivers at most one error: the failure that ended the server.
func (s *Server) Err() <-chan error { return s.failed }

// Done is closed when the server has ended, also by itself: a member that was
// removed from its cluster stops, and that is no failure.
func (s *Server) Done() <-chan struct{} { return s.stopped }

// Removed says whether the server ended because its cluster no longer has it.
// It is known once Done is closed.
func (s *Server) Removed() bool { return s.heard.removed.Load() }

// Stop hands over leadership, lets running requests end, and closes the files.
// Streams such as watches are cut after etcd's request timeout (5 s plus two
// election timeouts). When ctx ends first, Stop returns an error and the closing
// goes on in the background. Stop may be called again; it waits for the first.
func (s *Server) Stop(ctx context.Context) error {
	select {
	case <-s.closing:
		go s.close()
	default:
	}
	select {
	case <-s.closed:
		return nil
	case <-ctx.Done():
		return &fault.Error{Kind: fault.Unavailable, Cause: "deadline", Op: opServe, Subject: s.cfg.Name,
			Msg: "still closing when the time was up", Err: ctx.Err()}
	}
}

func (s *Server) close() {
	defer close(s.closed)
	select {
	case <-s.ready:
	default:
		// A server that has not joined has not begun to serve clients, and embed's
		// Close would wait for that for ever. Stopping the member first ends the wait.
		s.etcd.Server.HardStop()
		s.etcd.Close()
		return
	}
	// embed's Close hands over leadership as well, but only after the clients'
	// connections have been drained, which takes seconds where watches are open.
	// First is better: the cluster has its new leader at once, whatever becomes
	// of this process while it drains.
	if err := s.etcd.Server.TryTransferLeadershipOnShutdown(); err != nil {
		s.log.Warn("leadership transfer failed", zap.Error(err))
	}
	s.etcd.Close()
}

// notifySystemd says READY=1 to whoever started this process, by systemd's
// protocol. Without $NOTIFY_SOCKET it does nothing.
func (s *Server) notifySystemd() {
	sent, err := daemon.SdNotify(false, daemon.SdNotifyReady)
	switch {
	case err != nil:
		s.log.Error("failed to notify systemd for readiness", zap.Error(err))
	case sent:
		s.log.Info("successfully notified init daemon")
	}
}

// sayNotes writes to the log what Parse had to say before there was one.
func (c *Config) sayNotes(lg *zap.Logger) {
	for _, n := range c.notes {
		fields := make([]zap.Field, 0, len(n.fields)/2)
		for i := 0; i+1 < len(n.fields); i += 2 {
			fields = append(fields, zap.String(n.fields[i], n.fields[i+1]))
		}
		if n.warn {
			lg.Warn(n.msg, fields...)
			continue
		}
		lg.Info(n.msg, fields...)
	}
}

// checkDataDir refuses a directory that holds a v2 proxy's data, and warns of
// files that are not etcd's.
func checkDataDir(lg *zap.Logger, dir string) error {
	names, err := fileutil.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return &fault.Error{Kind: fault.Unavailable, Cause: "data_dir", Op: opServe, Subject: dir,
			Msg: "the data directory cannot be read", Hint: "check --data-dir and who may read it", Err: err}
	}
	for _, name := range names {
		switch name {
		case "member":
			lg.Info("server has already been initialized", zap.String("data-dir", dir))
		case "proxy":
			return &fault.Error{Kind: fault.Refused, Cause: "data_dir", Op: opServe, Subject: filepath.Join(dir, name),
				Msg: "the data directory is that of a v2 proxy, which no longer exists", Hint: "give an empty --data-dir"}
		default:
			lg.Warn("found invalid file under data directory", zap.String("filename", name), zap.String("data-dir", dir))
		}
	}
	return nil
}

// archEnv names an architecture on which etcd is to run without support.
const archEnv = "ETCD_UNSUPPORTED_ARCH"

// checkArch refuses what etcd refuses: architectures it is not tested on.
func checkArch() error {
	switch runtime.GOARCH {
	case "amd64", "arm64", "ppc64le", "s390x":
		return nil
	}
	if os.Getenv(archEnv) == runtime.GOARCH {
		return nil
	}
	return &fault.Error{Kind: fault.Refused, Cause: "architecture", Op: opServe, Subject: runtime.GOARCH,
		Msg: "etcd is not supported on this architecture", Hint: "set " + archEnv + "=" + runtime.GOARCH + " to run it all the same"}
}
