package ops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-shellwords"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// defragHooks are the commands that are run around each member, to take it out
// of a load balancer and back in, for example.
type defragHooks struct {
	beforeArgv, afterArgv []string
	timeout               time.Duration
}

// parseHooks splits the commands into words, without a shell: no variables, no
// pipes, no substitution. A command that does not exist is found here.
func parseHooks(o DefragOptions) (h defragHooks, err error) {
	h.timeout = o.HookTimeout
	if h.beforeArgv, err = argv("defrag", "--before-member", o.BeforeMember); err != nil {
		return h, err
	}
	h.afterArgv, err = argv("defrag", "--after-member", o.AfterMember)
	return h, err
}

func argv(op, flag, line string) ([]string, error) {
	if strings.TrimSpace(line) == "" {
		return nil, nil
	}
	bad := func(err error) error {
		return &fault.Error{Kind: fault.Usage, Cause: "hook", Op: op, Subject: flag, Err: err,
			Hint: "a program and its arguments; there is no shell: for one, give sh -c '…'"}
	}
	words, err := shellwords.NewParser().Parse(line)
	if err == nil && len(words) == 0 {
		err = errors.New("no command in it")
	}
	if err != nil {
		return nil, bad(err)
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return nil, bad(err)
	}
	return words, nil
}

func (h defragHooks) before(ctx context.Context, m cluster.Member, s cluster.Status) error {
	return h.run(ctx, "--before-member", h.beforeArgv, hookEnv(m, s))
}

func (h defragHooks) after(ctx context.Context, m cluster.Member, before, after cluster.Status) error {
	env := append(hookEnv(m, after), "KVD_DB_SIZE_BEFORE_BYTES="+strconv.FormatInt(before.DBSize, 10))
	return h.run(ctx, "--after-member", h.afterArgv, env)
}

// run runs one of them. What it leaves running is its own affair: it came back, and
// said that all is well.
func (h defragHooks) run(ctx context.Context, flag string, argv, env []string) error {
	if err := runHook(ctx, h.timeout, flag, argv, env); !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	return nil
}

// hookEnv is what a command is told about the member, beside kvd's own
// environment.
func hookEnv(m cluster.Member, s cluster.Status) []string {
	return []string{
		"KVD_MEMBER_NAME=" + m.Name,
		"KVD_MEMBER_ID=" + cluster.FormatID(m.ID),
		"KVD_MEMBER_ENDPOINT=" + m.Endpoint,
		"KVD_DB_SIZE_BYTES=" + strconv.FormatInt(s.DBSize, 10),
		"KVD_DB_IN_USE_BYTES=" + strconv.FormatInt(s.DBInUse, 10),
	}
}

// runHook runs a command to its end, for as long as timeout at most. What it
// prints is shown only if it fails. One that came back well and left a process
// which holds its output is an exec.ErrWaitDelay: whoever writes there from now
// on is ended by it.
func runHook(ctx context.Context, timeout time.Duration, flag string, argv, env []string) error {
	if len(argv) == 0 {
		return nil
	}
	rctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out lastOutput
	cmd := exec.CommandContext(rctx, argv[0], argv[1:]...) //nolint:gosec // the user's own command
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	// A session of its own: a Ctrl-C on kvd's terminal lets the step in hand end, and
	// does not interrupt the command in the middle of it; one that would ask something
	// there fails at once. What it started in it ends with it, where it took too long.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for what it started and left holding its output
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && rctx.Err() != nil:
		err = fmt.Errorf("not done within %s (--hook-timeout)", timeout)
	case errors.Is(err, exec.ErrWaitDelay):
		return fmt.Errorf("the %s command %s has come back and left a process that writes to its output, which ends with it: "+
			"redirect that, for example sh -c '… >/dev/null 2>&1 &' (%w)", flag, argv[0], err)
	}
	return fmt.Errorf("the %s command %s: %w%s", flag, argv[0], err, lastLine(string(out)))
}

// lastOutput keeps the end of what a command prints, which may be without end.
type lastOutput []byte

// outputKept is how many bytes of it are kept.
const outputKept = 4 << 10

func (o *lastOutput) Write(p []byte) (int, error) {
	*o = append(*o, p[max(0, len(p)-outputKept):]...)
	*o = append((*o)[:0], (*o)[max(0, len(*o)-outputKept):]...)
	return len(p), nil
}

// lastLine is the end of what a failed command printed.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	last := lines[len(lines)-1]
	if last == "" {
		return ""
	}
	if len(last) > 200 {
		last = last[:200] + "…"
	}
	return ": " + last
}
