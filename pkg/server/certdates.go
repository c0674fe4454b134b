package server

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// expiresSoon is how long before its end a certificate is warned of: the renewal
// of kubeadm and cert-manager comes earlier, so that somebody has to look.
const expiresSoon = 30 * 24 * time.Hour

// warnOfDates warns, in one line, of certificates that have expired or soon will.
// The server starts all the same, as etcd does: its certificate is read anew for
// each connection, and may be renewed while it runs.
func warnOfDates(lg *zap.Logger, cfg *embed.Config, now time.Time) {
	var said []string
	seen := map[string]bool{}
	for _, c := range []struct{ flag, cert, key string }{
		{"--cert-file", cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile},
		{"--client-cert-file", cfg.ClientTLSInfo.ClientCertFile, cfg.ClientTLSInfo.ClientKeyFile},
		{"--peer-cert-file", cfg.PeerTLSInfo.CertFile, cfg.PeerTLSInfo.KeyFile},
		{"--peer-client-cert-file", cfg.PeerTLSInfo.ClientCertFile, cfg.PeerTLSInfo.ClientKeyFile},
	} {
		if c.cert == "" || seen[c.cert] {
			continue
		}
		seen[c.cert] = true
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil || pair.Leaf == nil {
			continue // checkTLS has read it, or nothing is served with it
		}
		if text := dates(pair.Leaf.NotBefore, pair.Leaf.NotAfter, now); text != "" {
			said = append(said, fmt.Sprintf("%s %s %s", c.flag, c.cert, text))
		}
	}
	if len(said) > 0 {
		lg.Warn("a certificate is out of its dates, or soon will be: others refuse the connection then; renew it in place, no restart is needed",
			zap.String("certificates", strings.Join(said, "; ")))
	}
}

// dates says what is wrong with a certificate's dates, empty where nothing is.
func dates(from, until, now time.Time) string {
	const day = "2006-01-02 15:04 MST"
	switch {
	case now.Before(from):
		return "is not valid before " + from.UTC().Format(day)
	case now.After(until):
		return "expired on " + until.UTC().Format(day)
	case until.Sub(now) < expiresSoon:
		return fmt.Sprintf("expires on %s, in %.0f days", until.UTC().Format(day), until.Sub(now).Hours()/24)
	}
	return ""
}
