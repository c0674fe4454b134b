package server

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// fatalTrap takes the place of os.Exit behind etcd's Fatal log lines. What
// etcd calls fatal (a WAL that cannot be written, a data directory that
// cannot be made) becomes an error that Start or Server.Err hands out, and the
// goroutine that said it ends there and then, so that nothing runs on behind the
// line that was meant to be the last.
//
// Panics in log lines are treated the same until the server has started: until
// then they mean bad input or bad files. After that a panic stays a panic, since
// it says that an invariant of etcd's is broken and the process must not go on.
// There are two exceptions: raft's complaint that its log is shorter than what
// the cluster has committed (see lostLog), and a member that is asked for its
// status between its removal and its end (see justRemoved).
type fatalTrap struct {
	once    sync.Once
	err     chan error
	started atomic.Bool
}

func newFatalTrap() *fatalTrap { return &fatalTrap{err: make(chan error, 1)} }

// wrap returns lg with the trap behind its Fatal and Panic. Until the server has
// started its errors carry no stack trace: they are about flags and files, not
// about code, and are said again in one line.
func (t *fatalTrap) wrap(lg *zap.Logger) *zap.Logger {
	stack := zap.LevelEnablerFunc(func(l zapcore.Level) bool { return t.started.Load() && l >= zapcore.ErrorLevel })
	return lg.WithOptions(zap.WithFatalHook(trapHook{t, false}), zap.WithPanicHook(trapHook{t, true}), zap.AddStacktrace(stack))
}

type trapHook struct {
	trap    *fatalTrap
	isPanic bool
}

// OnWrite runs after a fatal line has been written. It does not return.
func (h trapHook) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	if h.isPanic && h.trap.started.Load() && justRemoved(ce.Message) {
		runtime.Goexit()
	}
	if h.isPanic && h.trap.started.Load() && !lostLog(ce.Message) {
		panic(ce.Message) // what zap does without a hook
	}
	h.trap.once.Do(func() { h.trap.err <- fatalError(ce.Message, fields) })
	runtime.Goexit()
}

// lostLog says whether a line is raft's panic about a member whose log went
// backwards (raft v3.7.0, log.go, commitTo): an old data directory was put back,
// or the disk lost writes that it had confirmed. raft says it in the goroutine
// that handles a message, before anything of the message is stored or answered,
// so ending that goroutine stops the member as surely as a panic would.
func lostLog(msg string) bool { return strings.HasPrefix(msg, lostLogText) }

const lostLogText = "tocommit("

// justRemoved says whether a line is the panic of a Status that came after the
// member's removal was applied and before it has stopped, which etcd does a second
// later by itself (etcdserver/server.go, applyEntries and stopWithDelay;
// membership/cluster.go, IsLocalMemberLearner). Only the goroutine that was to
// answer ends; the removal is then told as any other.
func justRemoved(msg string) bool { return msg == "failed to find local ID in cluster members" }

// fatalError is the line's message and the error and path among its fields.
func fatalError(msg string, fields []zapcore.Field) error {
	err := errors.New(msg)
	for _, f := range fields {
		switch {
		case f.Type == zapcore.ErrorType:
			if cause, ok := f.Interface.(error); ok {
				err = fmt.Errorf("%w: %w", err, cause)
			}
		case f.Type == zapcore.StringType && f.String != "":
			err = fmt.Errorf("%w (%s %s)", err, f.Key, f.String)
		}
	}
	return err
}
