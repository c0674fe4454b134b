package server

import (
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// hearing is what a server has learned of itself from etcd's log, which is the
// only place where etcd says it.
type hearing struct {
	removed  atomic.Bool // the cluster no longer has this member
	stranger sync.Once   // a member of another cluster was met; said once
}

// wrap returns lg with an ear on it.
func (h *hearing) wrap(lg *zap.Logger) *zap.Logger {
	say := lg.WithOptions(zap.WithCaller(false))
	return lg.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewTee(core, listener{level: zap.WarnLevel, heard: func(e zapcore.Entry, _ []zapcore.Field) { h.heard(e.Message, say) }})
	}))
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
