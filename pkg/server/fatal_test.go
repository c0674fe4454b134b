package server

import (
	"errors"
	"io/fs"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A fatal line, and a panic before the start is over, end their goroutine and
// become an error that carries the cause; nothing behind the line runs.
func TestFatalTrap(t *testing.T) {
	for _, tc := range []struct {
		name  string
		write func(lg *zap.Logger)
		level zapcore.Level
	}{
		{"fatal", func(lg *zap.Logger) { lg.Fatal("no WAL", zap.String("path", "/d"), zap.Error(fs.ErrPermission)) }, zap.FatalLevel},
		{"panic", func(lg *zap.Logger) { lg.Panic("no WAL", zap.String("path", "/d"), zap.Error(fs.ErrPermission)) }, zap.PanicLevel},
		{"fatal of a child logger", func(lg *zap.Logger) {
			lg.Named("x").With(zap.Int("n", 1)).Fatal("no WAL", zap.String("path", "/d"), zap.Error(fs.ErrPermission))
		}, zap.FatalLevel},
	} {
		t.Run(tc.name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			trap := newFatalTrap()
			lg := trap.wrap(zap.New(core))
			ended, ranOn := make(chan struct{}), false
			go func() {
				defer close(ended)
				tc.write(lg)
				ranOn = true
			}()
			<-ended
			if ranOn {
				t.Error("the goroutine ran on behind the line")
			}
			err := <-trap.err
			if !errors.Is(err, fs.ErrPermission) || err.Error() != "no WAL (path /d): permission denied" {
				t.Errorf("error %q", err)
			}
			if logs.Len() != 1 || logs.All()[0].Level != tc.level {
				t.Errorf("logged %v", logs.All())
			}
		})
	}
}

// A member that is asked for its status when it has just been removed ends the
// answer, not the process, and not the server: etcd stops that by itself.
func TestStatusOfARemovedMember(t *testing.T) {
	trap := newFatalTrap()
	trap.started.Store(true)
	lg := trap.wrap(zap.New(zapcore.NewNopCore()))
	for _, tc := range []struct {
		msg    string
		panics bool
	}{{"failed to find local ID in cluster members", false}, {"failed to find local ID", true}, {"something else is broken", true}} {
		panicked, ended := false, make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { panicked = recover() != nil }()
			lg.Panic(tc.msg)
		}()
		<-ended
		if panicked != tc.panics {
			t.Errorf("%q: panicked %v, want %v", tc.msg, panicked, tc.panics)
		}
	}
	if len(trap.err) != 0 {
		t.Errorf("the server was stopped: %v", <-trap.err)
	}
}

// What is wrong before the start is told without a stack trace; an error of a
// running server keeps its own.
func TestStackTraces(t *testing.T) {
	for _, started := range []bool{false, true} {
		core, logs := observer.New(zap.DebugLevel)
		trap := newFatalTrap()
		lg := trap.wrap(zap.New(core, zap.AddStacktrace(zap.ErrorLevel)))
		trap.started.Store(started)
		lg.Error("bootstrap failed")
		if got := logs.All()[0].Stack != ""; got != started {
			t.Errorf("started %v: stack trace %v", started, got)
		}
	}
}
