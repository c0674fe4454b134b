package diagnose

import "fmt"

// checkCerts looks at how long certificates are still good for.
func checkCerts() Check {
	return Check{
		Name: "certificates", Asks: "do certificates last?", IDs: []string{"KVD-TLS-001"}, Needs: []Need{NeedCerts},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			first := in.Certs[0]
			for _, c := range in.Certs {
				if c.NotAfter.Before(first.NotAfter) {
					first = c
				}
				left := c.NotAfter.Sub(in.At).Seconds()
				f := Finding{ID: "KVD-TLS-001", Severity: Warning, Subject: c.Of,
					Summary:  fmt.Sprintf("the certificate of %s expires in %s", c.Of, Seconds.Show(left)),
					Evidence: []Evidence{{What: "good until", Text: c.NotAfter.UTC().Format("2006-01-02 15:04 MST"), Value: left, Unit: Seconds, Source: c.Subject, At: in.At}},
					Remedy:   []string{"renew it (kubeadm certs renew all; kubeadm's last a year); etcd reads the new file by itself at the next handshake"}}
				if c.CA { // loaded once (TrustedCAFile in client/pkg/v3/transport/listener.go), and beyond kubeadm's command
					f.Remedy = []string{"make a new certificate for the CA (`kubeadm certs renew` makes none), put it where the old one is trusted, beside that one while both are in use, and restart the members one by one: etcd reads it at its start only",
						"then renew what the old one has issued, unless the new one has the same key"}
				}
				switch {
				case in.At.Before(c.NotBefore):
					f.Severity, f.Summary = Critical, fmt.Sprintf("the certificate of %s is not good yet: is a clock wrong?", c.Of)
				case left <= 0:
					f.Severity, f.Summary = Critical, fmt.Sprintf("the certificate of %s has expired", c.Of)
				case left <= min(in.Limits.CertCritical, c.life()/10) && !c.Own: // without ours, the cluster goes on
					f.Severity = Critical
				case left > min(in.Limits.CertWarning, c.life()/3): // what renews short ones does it about then
					continue
				}
				out = append(out, f)
			}
			return out, fmt.Sprintf("the first to expire is that of %s, in %s", first.Of, Seconds.Show(first.NotAfter.Sub(in.At).Seconds()))
		},
	}
}

// life is for how long a certificate is good in all, in seconds; of one of a day, days
// before its end are no measure.
func (c Cert) life() float64 { return c.NotAfter.Sub(c.NotBefore).Seconds() }
