package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

func testApp(in io.Reader, terminal bool, env map[string]string) (*App, *bytes.Buffer) {
	said := &bytes.Buffer{}
	return &App{
		IO:     &IOStreams{In: in, Out: io.Discard, Err: said, InIsTerminal: terminal, ErrIsTerminal: terminal},
		Getenv: func(k string) string { return env[k] }, Environ: func() []string { return nil }, Global: defaultGlobalFlags(),
	}, said
}

func TestConfirm(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	waiting, _ := io.Pipe() // nobody ever types
	for _, tc := range []struct {
		name     string
		ctx      context.Context
		in       io.Reader
		terminal bool
		yes      bool
		env      map[string]string
		want     fault.Kind
		asked    bool
	}{
		{"yes", t.Context(), strings.NewReader("y\n"), true, false, nil, "", true},
		{"YES", t.Context(), strings.NewReader(" Yes \n"), true, false, nil, "", true},
		{"no", t.Context(), strings.NewReader("n\n"), true, false, nil, fault.Refused, true},
		{"anything else", t.Context(), strings.NewReader("sure\n"), true, false, nil, fault.Refused, true},
		{"end of input", t.Context(), strings.NewReader(""), true, false, nil, fault.Refused, true},
		{"Ctrl-C while asked", ended, waiting, true, false, nil, fault.Interrupted, true},
		{"--yes", t.Context(), waiting, true, true, nil, "", false},
		{"KVD_YES=1", t.Context(), waiting, false, false, map[string]string{"KVD_YES": "1"}, "", false},
		{"KVD_YES=0", t.Context(), waiting, false, false, map[string]string{"KVD_YES": "0"}, fault.Refused, false},
		{"no terminal", t.Context(), strings.NewReader("y\n"), false, false, nil, fault.Refused, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			app, said := testApp(tc.in, tc.terminal, tc.env)
			err := app.confirm(tc.ctx, tc.yes, "run this plan?")
			if got := fault.KindOf(err); got != tc.want {
				t.Errorf("got %v, want kind %q", err, tc.want)
			}
			if asked := strings.Contains(said.String(), "run this plan? [y/N]"); asked != tc.asked {
				t.Errorf("asked: %v, want %v", asked, tc.asked)
			}
		})
	}
}

// The first signal asks a gentle command to stop, the second ends it; any other
// command ends at the first.
func TestInterrupts(t *testing.T) {
	ctx, in, done := watchSignals(t.Context(), io.Discard)
	defer done()
	stop := in.goGentle(nil)
	in.received(syscall.SIGINT)
	select {
	case <-stop:
	default:
		t.Error("the first signal did not ask for a stop")
	}
	in.received(syscall.SIGINT) // as timeout(1) does: the process, and then its group
	if ctx.Err() != nil {
		t.Error("the first signal ended a gentle command")
	}
	in.first = in.first.Add(-sameSignal)
	in.received(syscall.SIGINT)
	if ctx.Err() == nil {
		t.Error("the second signal did not end it")
	}
	if got := codeOf(&fault.Error{Kind: fault.Interrupted}, in.signal()); got != 130 {
		t.Errorf("exit code %d, want 130", got)
	}

	ctx, in, done2 := watchSignals(t.Context(), io.Discard)
	defer done2()
	in.received(syscall.SIGTERM)
	if ctx.Err() == nil {
		t.Error("the first signal did not end the command")
	}
	if got := codeOf(&fault.Error{Kind: fault.Interrupted}, in.signal()); got != 143 {
		t.Errorf("exit code %d, want 143", got)
	}
}

// A hang-up ends a command as Ctrl-C does, so that it cleans up, unless it is ignored.
func TestHangUp(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("ignored in whatever runs the tests, as under nohup")
	}
	ctx, in, done := watchSignals(t.Context(), io.Discard)
	defer done()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("it did not end the command")
	}
	if got := codeOf(&fault.Error{Kind: fault.Interrupted}, in.signal()); got != 130 {
		t.Errorf("exit code %d, want 130", got)
	}
}

// While the step in hand is being finished, its progress says that it stops then.
func TestProgressOfAStop(t *testing.T) {
	var said strings.Builder
	_, in, done := watchSignals(t.Context(), &said)
	defer done()
	app := &App{IO: &IOStreams{Err: &said}, Global: globalFlags{Progress: progressPlain}, interrupts: in}
	in.goGentle(nil)
	sink := app.Progress()
	sink.Event(progress.Event{Op: "defrag", Subject: "m1", Phase: "defragmenting"})
	in.received(syscall.SIGINT)
	sink.Event(progress.Event{Op: "defrag", Subject: "m1", Phase: "following its metrics", Note: "half of it"})
	sink.Event(progress.Event{Op: "defrag", Subject: "m1", Phase: "defragment", State: "done"})
	want := "defrag: m1: defragmenting\n" +
		"kvd: stopping: a wait ends now, a step that changes something is finished first (once more: leave at once)\n" +
		"defrag: m1: following its metrics: half of it; stops after this step\n" +
		"defrag: m1: defragment: done\n"
	if said.String() != want {
		t.Errorf("%s\nwant\n%s", said.String(), want)
	}
}
