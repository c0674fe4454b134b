package server

import (
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/auth"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const tokenHint = "--auth-token is simple, or jwt,sign-method=RS256,pub-key=FILE,priv-key=FILE,ttl=10m"

// checkAuthToken has etcd read --auth-token beforehand. At start etcd would end
// with no more than "invalid auth options": what is wrong with a key or an option
// stands in its log only, so that is listened to.
func checkAuthToken(value string) error {
	kind, _, _ := strings.Cut(value, ",")
	switch kind {
	case "simple", "":
		return nil // no files behind it, and etcd takes any option
	case "jwt":
	default:
		return usage("auth_token", "--auth-token", fmt.Sprintf("unknown kind of token %q", kind), tokenHint)
	}
	var said error
	lg := zap.New(listener{level: zap.ErrorLevel, heard: func(e zapcore.Entry, fields []zapcore.Field) {
		said = fatalError(e.Message, fields)
	}})
	_, err := auth.NewTokenProvider(lg, value, nil, time.Minute)
	if err == nil {
		return nil
	}
	if said != nil {
		err = said
	}
	return usageErr("auth_token", "--auth-token", err, tokenHint)
}
