package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"kvd/pkg/ops/fault"
)

// Values of --initial-cluster-state.
const (
	stateNew      = "new"
	stateExisting = "existing"
)

// member is one member: where it lives and, while it runs, its process.
type member struct {
	cluster                        *Cluster
	name, dir                      string
	clientURL, peerURL, metricsURL string
	peerListenURL                  string // peerURL, unless there is a gate before it
	gate                           *gate  // of a cuttable cluster

	mu        sync.Mutex
	extra     []string
	joining   bool // joins an existing cluster
	forgotten bool
	proc      *process // the last one, nil before the first
	notify    *notifySocket
}

func (m *member) setPorts(ports []int, tls *TLS) {
	client, peer := "http", "http"
	if tls != nil {
		client = "https"
		if tls.Peers {
			peer = "https"
		}
	}
	m.clientURL = fmt.Sprintf("%s://127.0.0.1:%d", client, ports[0])
	m.peerURL = fmt.Sprintf("%s://127.0.0.1:%d", peer, ports[1])
	m.peerListenURL = m.peerURL
	if m.gate != nil {
		m.gate.aim(fmt.Sprintf("127.0.0.1:%d", ports[1]))
		m.peerURL = m.gate.url()
	}
	m.metricsURL = fmt.Sprintf("http://127.0.0.1:%d", ports[2])
}

func (m *member) dataDir() string { return filepath.Join(m.dir, "data") }
func (m *member) logPath() string { return filepath.Join(m.dir, "log") }

func (m *member) setExtra(args []string) {
	if len(args) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.extra = args
}

func (m *member) joins()  { m.mu.Lock(); m.joining = true; m.mu.Unlock() }
func (m *member) forget() { m.mu.Lock(); m.forgotten = true; m.mu.Unlock() }

func (m *member) isForgotten() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forgotten
}

func (m *member) initialState() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joining {
		return stateExisting
	}
	return stateNew
}

// args is the member's command line behind Command.Args.
func (m *member) args(state, initialCluster string) []string {
	o := m.cluster.opts
	args := append([]string{}, o.Command.Args...)
	args = append(args,
		"--name="+m.name,
		"--data-dir="+m.dataDir(),
		"--listen-client-urls="+m.clientURL,
		"--advertise-client-urls="+m.clientURL,
		"--listen-peer-urls="+m.peerListenURL,
		"--initial-advertise-peer-urls="+m.peerURL,
		"--listen-metrics-urls="+m.metricsURL,
		"--initial-cluster="+initialCluster,
		"--initial-cluster-state="+state,
	)
	if o.QuotaBytes != 0 {
		args = append(args, fmt.Sprintf("--quota-backend-bytes=%d", o.QuotaBytes))
	}
	if t := o.TLS; t != nil {
		args = append(args, "--cert-file="+t.Cert, "--key-file="+t.Key)
		if t.ClientAuth {
			// The file alone already makes etcd want a certificate of its clients
			// (ServerConfig in client/pkg/v3/transport).
			args = append(args, "--client-cert-auth", "--trusted-ca-file="+t.CA)
		}
		if t.Peers {
			args = append(args, "--peer-cert-file="+t.Cert, "--peer-key-file="+t.Key,
				"--peer-trusted-ca-file="+t.CA, "--peer-client-cert-auth")
		}
	}
	args = append(args, o.Args...)
	return append(args, m.extra...)
}

// launch starts the process.
func (m *member) launch(state, initialCluster string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil && m.proc.alive() {
		return &fault.Error{Kind: fault.Refused, Op: "start", Subject: m.name, Msg: "it runs already"}
	}
	log, err := os.OpenFile(m.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return failed("start", m.name, err, "its log could not be opened", "")
	}
	defer log.Close() // the child has its own descriptor
	if m.notify != nil {
		m.notify.close()
	}
	if m.notify, err = listenNotify(); err != nil {
		return failed("start", m.name, err, "no socket for the ready signal", "")
	}

	cmd := exec.Command(m.cluster.opts.Command.Path, m.args(state, initialCluster)...)
	if self, err := os.Executable(); err == nil && self == cmd.Path {
		// A test binary that plays several programs goes by the name it was called.
		cmd.Args[0] = os.Args[0]
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(childEnv(os.Environ()), m.cluster.opts.Command.Env...)
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+m.notify.name)
	fmt.Fprintf(log, startMark+"%s %s\n", time.Now().UTC().Format(time.RFC3339), strings.Join(cmd.Args, " "))
	if m.proc, err = startProcess(cmd, m.cluster.opts.Detach); err != nil {
		m.notify.close()
		return failed("start", m.name, err, "the program could not be started", "")
	}
	go m.notify.waitFor(m.proc)
	return nil
}

// childEnv drops what would configure etcd behind our back.
func childEnv(env []string) []string {
	var kept []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "ETCD_") && !strings.HasPrefix(kv, "NOTIFY_SOCKET=") {
			kept = append(kept, kv)
		}
	}
	return kept
}

func (m *member) process() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc
}

func (m *member) running() bool {
	p := m.process()
	return p != nil && p.alive()
}

func (m *member) pid() int {
	if p := m.process(); p != nil && p.alive() {
		return p.cmd.Process.Pid
	}
	return 0
}

func (m *member) exited() <-chan struct{} {
	if p := m.process(); p != nil {
		return p.exited
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

func (m *member) exitCode() (int, bool) {
	p := m.process()
	if p == nil || p.alive() {
		return 0, false
	}
	return p.cmd.ProcessState.ExitCode(), true
}

func (m *member) signal(sig syscall.Signal) error {
	p := m.process()
	if p == nil || !p.alive() {
		return &fault.Error{Kind: fault.Unavailable, Cause: "not_running", Op: "signal", Subject: m.name, Msg: "it does not run"}
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return failed("signal", m.name, err, "", "")
	}
	return nil
}

func (m *member) pause() error  { return m.signal(syscall.SIGSTOP) }
func (m *member) resume() error { return m.signal(syscall.SIGCONT) }

// terminate sends SIGTERM, and SIGCONT in case the member is paused: a stopped
// process acts on no other signal.
func (m *member) terminate() error {
	if err := m.signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = m.signal(syscall.SIGCONT) // may have ended by now
	return nil
}

// stop ends the member in an orderly way, or by force when that takes too long.
func (m *member) stop(ctx context.Context) error {
	if err := m.terminate(); err != nil {
		return err
	}
	p := m.process()
	grace := m.cluster.opts.StopGrace
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		m.kill()
		return &fault.Error{Kind: fault.Unavailable, Cause: "killed", Op: "stop", Subject: m.name,
			Msg: fmt.Sprintf("still running %s after SIGTERM, so it was killed", grace)}
	case <-ctx.Done():
		m.kill()
		return failed("stop", m.name, context.Cause(ctx), "killed, because the time was up", "")
	}
	st := p.cmd.ProcessState
	ws, _ := st.Sys().(syscall.WaitStatus)
	// etcd's own binary ends by the signal it was sent, kvd with 0.
	if st.ExitCode() != 0 && (!ws.Signaled() || ws.Signal() != syscall.SIGTERM) {
		return &fault.Error{Kind: fault.Internal, Cause: "exit_status", Op: "stop", Subject: m.name,
			Msg: fmt.Sprintf("ended with %s: %s", st, lastWords(m.logPath()))}
	}
	return nil
}

// kill ends the member with SIGKILL and waits for it.
func (m *member) kill() {
	p := m.process()
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.exited
}

func failed(op, subject string, err error, msg, hint string) error {
	return &fault.Error{Kind: fault.Unavailable, Op: op, Subject: subject, Msg: msg, Hint: hint, Err: err}
}
