package server

import (
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"kvd/pkg/server/servertest"
)

// One line names each certificate that is out of its dates or soon will be, of
// clients and of peers, and each file once.
func TestWarnOfDates(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t) // good for a day more
	cfg := embed.NewConfig()
	cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = certs.ExpiredServer.Cert, certs.ExpiredServer.Key
	cfg.PeerTLSInfo.CertFile, cfg.PeerTLSInfo.KeyFile = certs.Server.Cert, certs.Server.Key
	cfg.PeerTLSInfo.ClientCertFile, cfg.PeerTLSInfo.ClientKeyFile = certs.Server.Cert, certs.Server.Key
	core, logs := observer.New(zapcore.DebugLevel)
	warnOfDates(zap.New(core), cfg, time.Now())
	if logs.Len() != 1 || logs.All()[0].Level != zapcore.WarnLevel {
		t.Fatalf("logged %+v", logs.All())
	}
	said, ok := logs.All()[0].ContextMap()["certificates"].(string)
	for _, want := range []string{"--cert-file " + certs.ExpiredServer.Cert + " expired on ", "--peer-cert-file " + certs.Server.Cert + " expires on "} {
		if !ok || strings.Count(said, want) != 1 {
			t.Errorf("no %q in %s", want, said)
		}
	}
	if strings.Count(said, "; ") != 1 {
		t.Errorf("more than two certificates: %s", said)
	}
}

func TestDates(t *testing.T) {
	t.Parallel()
	now, day := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), 24*time.Hour
	for _, tc := range []struct {
		from, until time.Duration
		want        string
	}{
		{-day, 365 * day, ""},
		{-day, 30*day + time.Hour, ""},
		{-day, 30*day - time.Hour, "expires on 2026-05-31 11:00 UTC, in 30 days"},
		{-day, time.Hour, "expires on 2026-05-01 13:00 UTC, in 0 days"},
		{-day, -time.Hour, "expired on 2026-05-01 11:00 UTC"},
		{time.Hour, 365 * day, "is not valid before 2026-05-01 13:00 UTC"},
	} {
		if got := dates(now.Add(tc.from), now.Add(tc.until), now); got != tc.want {
			t.Errorf("%v to %v: %q, want %q", tc.from, tc.until, got, tc.want)
		}
	}
}
