package diagnose

import (
	"fmt"
	"slices"
	"time"

	"kvd/pkg/ops/cluster"
)

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
						"then renew what the old one has issued, unless the new one has the same key: docs/runbooks/certificates.md has the order that costs no quorum"}
				}
				switch {
				case in.At.Before(c.NotBefore):
					notYet(&f, c, in.At)
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

// notYet tells of a certificate that begins later: a clock is or was wrong, which
// renewing it does not mend.
func notYet(f *Finding, c Cert, now time.Time) {
	from, wait := c.NotBefore.UTC().Format("2006-01-02 15:04:05 MST"), c.NotBefore.Sub(now).Seconds()
	f.Severity, f.Summary = Critical, fmt.Sprintf("the certificate of %s is not good yet, but from %s on, in %s: is a clock wrong?", c.Of, from, Seconds.Show(wait))
	f.Evidence = append(f.Evidence, Evidence{What: "good from", Text: from, Value: wait, Unit: Seconds, Source: c.Subject, At: now})
	f.Remedy = []string{"date -u  # on its machine, on this one and where the certificate was made: set the clock that is behind, or was ahead when it was made",
		"if the clocks are right, make the certificate anew, or wait until then"}
}

// unusable reports that a certificate that counts for connections from here to a member
// is not good now: its own, ours, or that of the CA.
func (in *Input) unusable(m cluster.Member) bool {
	return slices.ContainsFunc(in.Certs, func(c Cert) bool {
		return (c.Member == m.ID || c.Own || c.CA) && (in.At.Before(c.NotBefore) || !in.At.Before(c.NotAfter))
	})
}

// life is for how long a certificate is good in all, in seconds; of one of a day, days
// before its end are no measure.
func (c Cert) life() float64 { return c.NotAfter.Sub(c.NotBefore).Seconds() }

// otherIssuer says how the certificate that a member shows its peers differs in its issuer
// from those of all others, or nothing. With one CA for all, as kubeadm has it, they take
// nothing from it then, nor it from them: a CA that was made anew on its host has the name
// of the old one.
func (in *Input) otherIssuer(m cluster.Member) (Evidence, bool) {
	var own *Cert
	usual := map[string]string{} // issuer by key, of the others
	for i, c := range in.Certs {
		switch {
		case !c.Peer || c.Key == "":
		case c.Member == m.ID:
			own = &in.Certs[i]
		default:
			usual[c.Key] = c.Issuer
		}
	}
	if own == nil || len(usual) != 1 || usual[own.Key] != "" {
		return Evidence{}, false
	}
	for key, issuer := range usual {
		return Evidence{What: "its certificate for peers", Text: fmt.Sprintf("issued by %q with key %s; those of the others by %q with key %s", own.Issuer, short(own.Key), issuer, short(key)),
			Source: "handshake with its peer port", At: in.At}, true
	}
	return Evidence{}, false
}

// short is as much of a key's identifier as it takes to tell two apart.
func short(key string) string { return key[:min(8, len(key))] }

// ofOneCA is what helps a member whose certificate is from another CA than its peers'.
func ofOneCA(m cluster.Member) string {
	return "give " + name(m) + " a certificate of the CA that the others have (kubeadm: copy /etc/kubernetes/pki/etcd/ca.crt and ca.key from one of their hosts, then kubeadm certs renew all), and start it again"
}
