package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"slices"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"kvd/pkg/ops/fault"
)

// checkBeforeLogging finds what would panic inside etcd's own validation.
func checkBeforeLogging(cfg *embed.Config) error {
	if err := checkLogLevel(cfg.LogLevel); err != nil {
		return usageErr("log_level", "--log-level", err, logLevelHint)
	}
	for _, out := range cfg.LogOutputs {
		if out == "" {
			return usage("log_output", "--log-outputs", "an output is empty", logOutputHint)
		}
	}
	for _, l := range []struct {
		flag string
		urls []url.URL
	}{{"--listen-peer-urls", cfg.ListenPeerUrls}, {"--listen-client-urls", cfg.ListenClientUrls}} {
		if len(l.urls) == 0 {
			return usage("url", l.flag, "no URL given", "for example http://127.0.0.1:2379")
		}
	}
	switch {
	case cfg.CorruptCheckTime < 0:
		return usage("invalid", "--corrupt-check-time", "negative", "a duration such as 1h, or 0 for no checks")
	case cfg.MaxRequestBytes == 0:
		return usage("invalid", "--max-request-bytes", "no request would fit, so the member could not even join",
			fmt.Sprintf("etcd's default is %d", int(embed.DefaultMaxRequestBytes)))
	case cfg.MaxLearners < 0:
		return usage("invalid", "--max-learners", "negative", "0 or more")
	}
	// A config file can null these, and etcd prints them without looking.
	if cfg.DiscoveryCfg.Secure == nil {
		cfg.DiscoveryCfg.Secure = &clientv3.SecureConfig{InsecureTransport: true}
	}
	if cfg.DiscoveryCfg.Auth == nil {
		cfg.DiscoveryCfg.Auth = &clientv3.AuthConfig{}
	}
	return nil
}

// checkTLS reads every certificate the configuration names. etcd itself finds
// a bad client certificate only after the server has begun to run.
func checkTLS(cfg *embed.Config) error {
	client := tlsSide{prefix: "--", info: cfg.ClientTLSInfo, auto: cfg.ClientAutoTLS,
		urls: slices.Concat(cfg.ListenClientUrls, cfg.ListenClientHttpUrls, cfg.ListenMetricsUrls)}
	peer := tlsSide{prefix: "--peer-", info: cfg.PeerTLSInfo, auto: cfg.PeerAutoTLS, urls: cfg.ListenPeerUrls}
	for _, s := range []tlsSide{client, peer} {
		// Peers dial each other with these files whatever their own scheme is;
		// clients' files are never read where nothing is served with TLS.
		if !s.wanted() && s.prefix == "--" {
			continue
		}
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}

// tlsSide is the TLS configuration of one side, clients' or peers'.
type tlsSide struct {
	prefix string // of the flags' names
	info   transport.TLSInfo
	auto   bool
	urls   []url.URL
}

func secure(u url.URL) bool { return u.Scheme == "https" || u.Scheme == "unixs" }

// wanted says whether anything is served with TLS on this side.
func (s tlsSide) wanted() bool { return slices.ContainsFunc(s.urls, secure) }

func (s tlsSide) check() error {
	cert, key := s.prefix+"cert-file", s.prefix+"key-file"
	for _, u := range s.urls {
		if secure(u) && s.info.Empty() && !s.auto {
			return usage("certificate_missing", u.String(), "TLS is asked for, but there is no certificate",
				fmt.Sprintf("give %s and %s, or %sauto-tls", cert, key, s.prefix))
		}
	}
	// etcd's name for the second pair is client-cert-file on both sides.
	for _, p := range []struct{ certFlag, certPath, keyFlag, keyPath string }{
		{cert, s.info.CertFile, key, s.info.KeyFile},
		{s.prefix + "client-cert-file", s.info.ClientCertFile, s.prefix + "client-key-file", s.info.ClientKeyFile},
	} {
		if err := checkPair(p.certFlag, p.certPath, p.keyFlag, p.keyPath); err != nil {
			return err
		}
	}
	if err := checkCA(s.prefix+"trusted-ca-file", s.info.TrustedCAFile); err != nil {
		return err
	}
	if s.info.CRLFile != "" {
		name := s.prefix + "crl-file"
		if s.prefix == "--" {
			name = "--client-crl-file"
		}
		if _, err := os.Stat(s.info.CRLFile); err != nil {
			return usageErr("certificate_missing", name, err, "check the path")
		}
	}
	return nil
}

func checkPair(certFlag, certPath, keyFlag, keyPath string) error {
	switch {
	case certPath == "" && keyPath == "":
		return nil
	case certPath == "":
		return usage("certificate_missing", certFlag, "a key is given without its certificate", "give "+certFlag+" too")
	case keyPath == "":
		return usage("certificate_missing", keyFlag, "a certificate is given without its key", "give "+keyFlag+" too")
	}
	for _, f := range [][2]string{{certFlag, certPath}, {keyFlag, keyPath}} {
		if _, err := os.ReadFile(f[1]); err != nil {
			return usageErr("certificate_missing", f[0], err, "check the path and who may read it")
		}
	}
	if _, err := tls.LoadX509KeyPair(certPath, keyPath); err != nil {
		return usageErr("certificate_invalid", certFlag+" "+certPath, err,
			fmt.Sprintf("the certificate and the key in %s must be PEM and belong together", keyPath))
	}
	return nil
}

func checkCA(flagName, path string) error {
	if path == "" {
		return nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return usageErr("certificate_missing", flagName, err, "check the path and who may read it")
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return usage("certificate_invalid", flagName+" "+path, "no certificate in the file", "the file holds PEM blocks of type CERTIFICATE")
	}
	return nil
}

// usage is an error of the call, found before anything was started.
func usage(cause, subject, msg, hint string) error {
	return &fault.Error{Kind: fault.Usage, Cause: cause, Op: opServe, Subject: subject, Msg: msg, Hint: hint}
}

func usageErr(cause, subject string, err error, hint string) error {
	return &fault.Error{Kind: fault.Usage, Cause: cause, Op: opServe, Subject: subject, Hint: hint, Err: err}
}

const opServe = "serve"
