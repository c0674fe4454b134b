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
