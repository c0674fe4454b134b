package diagnose

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A certificate is seen of a server that refuses us, as a peer port does: up to TLS 1.2
// it has done so when the handshake ends.
func TestCertificateOfWhoRefusesUs(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.TLS = &tls.Config{MaxVersion: version, ClientAuth: tls.RequireAnyClientCert}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		got, plain := shown(t.Context(), &tls.Config{InsecureSkipVerify: true}, "m1 for peers", s.URL, 5*time.Second)
		if plain || got == nil || !got.NotAfter.Equal(s.Certificate().NotAfter) {
			t.Errorf("TLS %s: %+v, want one good until %s", name, got, s.Certificate().NotAfter)
		}
		if got, plain := shown(t.Context(), &tls.Config{InsecureSkipVerify: true}, "m1 for peers", "http"+strings.TrimPrefix(s.URL, "https"), 5*time.Second); got == nil || plain {
			t.Errorf("TLS %s, where the address says http: %+v, %t", name, got, plain)
		}
		s.Close()
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for _, address := range []string{s.URL, "https" + strings.TrimPrefix(s.URL, "http")} {
		if got, plain := shown(t.Context(), &tls.Config{InsecureSkipVerify: true}, "m1 for peers", address, 5*time.Second); got != nil || !plain {
			t.Errorf("%s, which speaks no TLS: %+v, %t", address, got, plain)
		}
	}
	if got, plain := shown(t.Context(), &tls.Config{InsecureSkipVerify: true}, "m1 for peers", "http://127.0.0.1:1", time.Second); got != nil || plain {
		t.Errorf("nobody there: %+v, %t", got, plain)
	}
}
