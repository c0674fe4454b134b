package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// sameSignal is how soon after the first a second signal is no second request.
// Nobody types that fast.
const sameSignal = 100 * time.Millisecond

// interrupts turns SIGINT, SIGTERM and SIGHUP into the end of a command: a terminal
// that is closed is no reason to leave half-written files. By default the first
// signal ends the context. A command that changes something goes gentle: then the
// first signal only asks for a stop after the step in hand, and the second ends the
// context. A third one kills the process, as it would have without us. What comes within a moment of the first one is the same: timeout(1)
// and some supervisors signal the process and then its group.
type interrupts struct {
	cancel context.CancelFunc
	ended  <-chan struct{} // the context's
	errOut io.Writer

	mu     sync.Mutex
	gentle func() // tells of the first signal; nil: it ends the command
	seen   int
	first  time.Time
	last   syscall.Signal
	stop   chan struct{}
}

// endings are the signals that end a command. A hang-up that is ignored, as under
// nohup, stays so.
func endings() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// watchSignals begins to listen; the returned function ends that.
func watchSignals(parent context.Context, errOut io.Writer) (context.Context, *interrupts, func()) {
	ctx, cancel := context.WithCancel(parent)
	in := &interrupts{cancel: cancel, ended: ctx.Done(), errOut: errOut, stop: make(chan struct{})}
	ch := make(chan os.Signal, 3)
	signal.Notify(ch, endings()...)
	// Caught and dropped: a reader that leaves, or a file that reaches its limit
	// (ulimit -f, LimitFSIZE), must not kill a plan half-way. The write returns EPIPE or
	// EFBIG instead. (Ignored, it would be inherited by hooks.)
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE, syscall.SIGXFSZ)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-ch:
				in.received(s)
			case <-done:
				return
			}
		}
	}()
	return ctx, in, func() { signal.Stop(ch); signal.Stop(pipes); close(done); cancel() }
}

func (in *interrupts) received(s os.Signal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.seen == 1 && time.Since(in.first) < sameSignal {
		return
	}
	if in.seen++; in.seen == 1 {
		in.first = time.Now()
	}
	in.last, _ = s.(syscall.Signal)
	switch {
	case in.gentle != nil && in.seen == 1:
		in.gentle()
		close(in.stop)
	case in.seen == 1 || (in.gentle != nil && in.seen == 2):
		in.cancel()
	default:
		signal.Reset(endings()...)
	}
}

// stopping is what a stop after the step in hand means, for whoever asked for it.
const stopping = "stopping: a wait ends now, a step that changes something is finished first (once more: leave at once)"

// goGentle makes the first signal a request to stop after the step in hand, of
// which told is called then (nil: a line on stderr), and returns the channel that
// is closed after that.
func (in *interrupts) goGentle(told func()) <-chan struct{} {
	if told == nil {
		told = func() { fmt.Fprintln(in.errOut, "kvd: "+stopping) }
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.gentle = told
	return in.stop
}

// stopping reports that the first signal came and the step in hand is being
// finished.
func (in *interrupts) stopping() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.gentle != nil && in.seen > 0
}

// signal returns the number of the last signal, 0 for none.
func (in *interrupts) signal() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return int(in.last)
}
