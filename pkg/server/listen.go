package server

import "go.uber.org/zap/zapcore"

// listener is a zap core that hands each line to a function instead of writing
// it. It is how kvd hears what etcd says nowhere but in its log.
type listener struct {
	heard func(e zapcore.Entry, fields []zapcore.Field)
	level zapcore.Level
	with  []zapcore.Field
}

func (l listener) Enabled(level zapcore.Level) bool { return level >= l.level }

func (l listener) With(fields []zapcore.Field) zapcore.Core {
	l.with = append(l.with[:len(l.with):len(l.with)], fields...)
	return l
}

func (l listener) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if l.Enabled(e.Level) {
		return ce.AddCore(e, l)
	}
	return ce
}

func (l listener) Write(e zapcore.Entry, fields []zapcore.Field) error {
	l.heard(e, append(l.with[:len(l.with):len(l.with)], fields...))
	return nil
}

func (listener) Sync() error { return nil }
