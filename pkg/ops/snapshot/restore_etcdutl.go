package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"kvd/pkg/ops/fault"
)

// runEtcdutl has etcd's own code make a data directory of a file that is known
// to be whole: it copies the file, takes the members out, lifts the revision,
// puts the new members in, and writes a log that begins with them.
//
// It is told to skip the hash: that was compared when the file was verified, and
// what comes out is compared with what was read then. Reading a file of some GiB
// once more to hash it is what a restore would take longest for.
func (r *Restore) runEtcdutl(ctx context.Context, m *memberRestore) error {
	filling, filled := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() { writeEarly(filling, m.builtDB()) })
	defer writer.Wait()
	defer filled()
	return guarded(ctx, func(lg *zap.Logger) error {
		cfg := r.etcdutlConfig(m)
		cfg.SnapshotPath = r.file.content()
		cfg.RevisionBump, cfg.MarkCompacted = uint64(r.Recipe.BumpRevision), r.Recipe.BumpRevision > 0 //nolint:gosec // not negative
		err := snapshot.NewV3(lg).Restore(cfg)
		if err == nil && r.Recipe.ClearAlarms && len(r.Verification.Content.Alarms) > 0 {
			err = clearAlarms(lg, m.builtDB())
		}
		return err
	})
}

// runEtcdutlForLog has etcd's code make a data directory of an empty db: its log,
// and the file beside the db, say who the members are and nothing else.
func (r *Restore) runEtcdutlForLog(ctx context.Context, m *memberRestore) error {
	return guarded(ctx, func(lg *zap.Logger) error {
		cfg := r.etcdutlConfig(m)
		cfg.SnapshotPath = filepath.Join(m.data.aside, emptyName)
		be := backend.NewDefaultBackend(lg, cfg.SnapshotPath)
		schema.CreateMetaBucket(be.BatchTx()) // the one bucket that a restore takes for granted
		if err := be.Close(); err != nil {
			return err
		}
		return snapshot.NewV3(lg).Restore(cfg)
	})
}

func (r *Restore) etcdutlConfig(m *memberRestore) snapshot.RestoreConfig {
	return snapshot.RestoreConfig{
		Name: m.Name, PeerURLs: m.PeerURLs, OutputDataDir: m.built(), OutputWALDir: m.builtWAL(),
		InitialCluster: r.Recipe.InitialCluster(), InitialClusterToken: r.Recipe.Token, SkipHashCheck: true,
	}
}

// clearAlarms takes all alarms out of a backend file that nobody else has open.
func clearAlarms(lg *zap.Logger, db string) error {
	be := backend.NewDefaultBackend(lg, db)
	alarms := schema.NewAlarmBackend(lg, be)
	all, err := alarms.GetAllAlarms()
	if err != nil {
		return errors.Join(err, be.Close())
	}
	for _, a := range all {
		alarms.MustDeleteAlarm(a)
	}
	return be.Close()
}

// guarded runs code of etcd's that ends the process where something is wrong (a
// full disk at a commit, a file that does not open), and makes an error of that.
// What it had open stays so until the process ends, so that only a command that is
// about to give up may go on.
func guarded(ctx context.Context, run func(*zap.Logger) error) error {
	ended := make(fatalHook, 1)
	lg := zap.New(zapcore.NewNopCore(), zap.WithFatalHook(ended), zap.WithPanicHook(ended))
	done := make(chan error, 1)
	go func() { done <- run(lg) }()
	select {
	case err := <-done:
		if err != nil {
			return fileError(opRestore, "etcd's restore", err)
		}
		return ctx.Err()
	case why := <-ended:
		return &fault.Error{Kind: fault.Unavailable, Cause: "etcd_gave_up", Op: opRestore, Msg: "etcd's code gave up: " + why,
			Hint: "is the disk full, or broken? Nothing was put into its place"}
	}
}

// fatalHook takes the last words of code that would end the process, and ends the
// goroutine instead.
type fatalHook chan string

// OnWrite implements zapcore.CheckWriteHook.
func (h fatalHook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	words := []string{e.Message}
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			words = append(words, fmt.Sprint(err))
		}
	}
	select {
	case h <- strings.Join(words, ": "):
	default: // somebody else was first
	}
	runtime.Goexit()
}
