package server

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// hearing is what a server has learned of itself from etcd's log, which is the
// only place where etcd says it.
type hearing struct {
	removed  atomic.Bool           // the cluster no longer has this member
	stranger sync.Once             // a member of another cluster was met; said once
	repair   atomic.Pointer[error] // what kept etcd from repairing its log
}

// wrap returns lg with an ear on it.
func (h *hearing) wrap(lg *zap.Logger) *zap.Logger {
	say := lg.WithOptions(zap.WithCaller(false))
	return lg.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewTee(core, listener{level: zap.WarnLevel, heard: func(e zapcore.Entry, fields []zapcore.Field) {
			h.heard(e.Message, say)
			if repairFailure(e.Message) {
				h.repair.Store(new(fatalError(e.Message, fields)))
			}
		}})
	}))
}

// repairFailure says whether a line tells what kept etcd from cutting the torn end of its
// log (Repair in server/storage/wal/repair.go), which hands out no more than that.
func repairFailure(msg string) bool {
	switch msg {
	case "failed to create backup file", "failed to read file", "failed to copy", "failed to truncate", "failed to fsync":
		return true
	}
	return false
}

// because adds to a start's failure what was said before it of the reason.
func (h *hearing) because(err error) error {
	if why := h.repair.Load(); why != nil && strings.Contains(err.Error(), repairFailed) {
		return fmt.Errorf("%w; %s: %w", err, uncutText, *why)
	}
	return err
}

// heard looks at one line. The texts are etcd 3.7.3's (etcdserver/server.go, run;
// rafthttp/http.go, util.go and stream.go).
func (h *hearing) heard(msg string, say *zap.Logger) {
	switch {
	case msg == "data-dir used by this member must be removed":
		h.removed.Store(true)
	case strings.Contains(msg, "cluster ID mismatch"):
		h.stranger.Do(func() {
			say.Error("a peer belongs to another cluster: one of the two began as a cluster of its own, or was restored from a snapshot",
				zap.String("hint", "compare --initial-cluster-token and data directories; a member joins with kvd member add or kvd member replace, "+
					"--initial-cluster-state existing and an empty --data-dir"))
		})
	}
}
