package diagnose_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// A member that does not answer is explained by a certificate that counts for the
// connection to it, and by no other's.
func TestACertificateExplainsItsOwnMember(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c *diagnose.Cert)
		want   bool
	}{
		"its own has expired":             {func(c *diagnose.Cert) { c.Member = 2 }, true},
		"another's has expired":           {func(c *diagnose.Cert) { c.Member = 3 }, false},
		"ours has expired":                {func(c *diagnose.Cert) { c.Own = true }, true},
		"the CA's has expired":            {func(c *diagnose.Cert) { c.CA = true }, true},
		"its own is good for another day": {func(c *diagnose.Cert) { c.Member, c.NotAfter = 2, c.NotAfter.AddDate(0, 0, 2) }, false},
		"its own begins tomorrow": {func(c *diagnose.Cert) {
			c.Member, c.NotBefore, c.NotAfter = 2, c.NotAfter.AddDate(0, 0, 2), c.NotAfter.AddDate(1, 0, 0)
		}, true},
	} {
		w := healthy()
		w.cert(-1)
		tc.change(&w.in.Certs[0])
		w.down(2, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseCertExpired, Msg: "it is not good"})
		f := finding(t, diagnose.Diagnose(w.input(t)), "KVD-NET-001")
		if got := slices.Contains(f.ExplainedBy, "KVD-TLS-001"); got != tc.want {
			t.Errorf("%s: explained by %q", name, f.ExplainedBy)
		}
	}
}

// A certificate that is not good yet is told from when it is, and renewing it is no help
// as long as a clock is wrong.
func TestACertificateThatIsNotGoodYet(t *testing.T) {
	w := healthy()
	w.cert(300)
	w.in.Certs[0].NotBefore = w.in.At.Add(90 * time.Minute)
	f := finding(t, diagnose.Diagnose(w.input(t)), "KVD-TLS-001")
	from := w.in.Certs[0].NotBefore.UTC().Format("2006-01-02 15:04:05 MST")
	mentions(t, f.Summary, "not good yet", "from "+from, "in 1h30m")
	if f.Severity != diagnose.Critical || !strings.HasPrefix(f.Remedy[0], "date -u") || strings.Contains(strings.Join(f.Remedy, " "), "kubeadm") {
		t.Errorf("%+v", f)
	}
	i := slices.IndexFunc(f.Evidence, func(e diagnose.Evidence) bool { return e.What == "good from" })
	if i < 0 || f.Evidence[i].Value != 5400 || f.Evidence[i].Unit != diagnose.Seconds {
		t.Errorf("%+v", f.Evidence)
	}
}
