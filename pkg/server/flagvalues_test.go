package server_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kvd/pkg/server/servertest"
	"sigs.k8s.io/yaml"
)

// flagValue is a value for one of etcd's flags that is not its default, and the
// values of other flags without which it would be refused.
type flagValue struct {
	flag, value string
	with        map[string]string
	noEffect    bool // etcd accepts it and does nothing with it
}

// flagValues has every flag of etcd but --config-file and --version, which say
// what to read and what to print. A test compares it with etcd's own flags.
func flagValues(t *testing.T) []flagValue {
	t.Helper()
	certs := servertest.NewCerts(t)
	pair := func(prefix string) map[string]string {
		return map[string]string{prefix + "cert-file": certs.Server.Cert, prefix + "key-file": certs.Server.Key}
	}
	discovery := map[string]string{"discovery-token": "t", "discovery-endpoints": "http://127.0.0.1:1"}
	logFile := filepath.Join(t.TempDir(), "etcd.log")
	if err := os.WriteFile(logFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all := []flagValue{
		// member
		{flag: "name", value: "m7"},
		{flag: "data-dir", value: "some-dir"},
		{flag: "wal-dir", value: "some-wal"},
		{flag: "listen-peer-urls", value: "http://127.0.0.1:12380,http://127.0.0.1:12381"},
		{flag: "listen-client-urls", value: "http://127.0.0.1:12379", with: map[string]string{"advertise-client-urls": "http://127.0.0.1:12379"}},
		{flag: "listen-client-http-urls", value: "http://127.0.0.1:12382"},
		{flag: "listen-metrics-urls", value: "http://127.0.0.1:12383"},
		{flag: "max-snapshots", value: "7"},
		{flag: "max-wals", value: "8"},
		{flag: "snapshot-count", value: "20000"},
		{flag: "heartbeat-interval", value: "150"},
		{flag: "election-timeout", value: "2000"},
		{flag: "initial-election-tick-advance", value: "false"},
		{flag: "quota-backend-bytes", value: "16777216"},
		{flag: "backend-bbolt-freelist-type", value: "array"},
		{flag: "backend-batch-interval", value: "50ms"},
		{flag: "backend-batch-limit", value: "5000"},
		{flag: "max-txn-ops", value: "256"},
		{flag: "max-request-bytes", value: "2000000"},
		{flag: "grpc-keepalive-min-time", value: "7s"},
		{flag: "grpc-keepalive-interval", value: "1h"},
		{flag: "grpc-keepalive-timeout", value: "21s"},
		{flag: "socket-reuse-port", value: "true"},
		{flag: "socket-reuse-address", value: "true"},
		{flag: "max-concurrent-streams", value: "99"},
		{flag: "raft-read-timeout", value: "6s"},
		{flag: "raft-write-timeout", value: "7s"},
		{flag: "max-learners", value: "2"},
		{flag: "snapshot-catchup-entries", value: "6000"},
		{flag: "memory-mlock", value: "true"},
		{flag: "bootstrap-defrag-threshold-megabytes", value: "100"},
		{flag: "compaction-batch-limit", value: "500"},
		{flag: "compaction-sleep-interval", value: "20ms"},
		{flag: "watch-progress-notify-interval", value: "5s"},
		{flag: "downgrade-check-time", value: "6s"},
		{flag: "warning-apply-duration", value: "200ms"},
		{flag: "warning-unary-request-duration", value: "400ms"},
		{flag: "auto-compaction-retention", value: "5m"},
		{flag: "auto-compaction-mode", value: "revision", with: map[string]string{"auto-compaction-retention": "1000"}},
		{flag: "corrupt-check-time", value: "2h"},
		{flag: "compact-hash-check-time", value: "2m"},
		{flag: "feature-gates", value: "CompactHashCheck=true,InitialCorruptCheck=true,FastLeaseKeepAlive=false"},
		{flag: "unsafe-no-fsync", value: "true"},
		{flag: "force-new-cluster", value: "true"},
		{flag: "enable-pprof", value: "true"},
		{flag: "enable-grpc-gateway", value: "false"},
		{flag: "metrics", value: "extensive"},
		{flag: "pre-vote", value: "false"},
		{flag: "strict-reconfig-check", value: "false"},
		// clustering
		{flag: "initial-advertise-peer-urls", value: "http://127.0.0.1:12380", with: map[string]string{"initial-cluster": "default=http://127.0.0.1:12380"}},
		{flag: "advertise-client-urls", value: "http://127.0.0.1:12379"},
		{flag: "initial-cluster", value: "default=http://localhost:2380,other=http://127.0.0.1:1"},
		{flag: "initial-cluster-state", value: "existing"},
		{flag: "initial-cluster-token", value: "another"},
		{flag: "discovery-srv", value: "example.com"},
		{flag: "discovery-srv-name", value: "blue", with: map[string]string{"discovery-srv": "example.com"}},
		{flag: "discovery-token", value: "t2", with: map[string]string{"discovery-endpoints": "http://127.0.0.1:1"}},
		{flag: "discovery-endpoints", value: "http://127.0.0.1:2,http://127.0.0.1:3", with: map[string]string{"discovery-token": "t"}},
		{flag: "discovery-dial-timeout", value: "3s", with: discovery},
		{flag: "discovery-request-timeout", value: "4s", with: discovery},
		{flag: "discovery-keepalive-time", value: "5s", with: discovery},
		{flag: "discovery-keepalive-timeout", value: "7s", with: discovery},
		{flag: "discovery-insecure-transport", value: "false", with: discovery},
		{flag: "discovery-insecure-skip-tls-verify", value: "true", with: discovery},
		{flag: "discovery-cert", value: certs.Client.Cert, with: discovery},
		{flag: "discovery-key", value: certs.Client.Key, with: discovery},
		{flag: "discovery-cacert", value: certs.CA, with: discovery},
		{flag: "discovery-user", value: "u", with: discovery},
		{flag: "discovery-password", value: "p", with: discovery},
		{flag: "discovery-fallback", value: "exit", noEffect: true},
		// security
		{flag: "cert-file", value: certs.Server.Cert, with: map[string]string{"key-file": certs.Server.Key}},
		{flag: "key-file", value: certs.Server.Key, with: map[string]string{"cert-file": certs.Server.Cert}},
		{flag: "client-cert-file", value: certs.Client.Cert, with: map[string]string{"client-key-file": certs.Client.Key}},
		{flag: "client-key-file", value: certs.Client.Key, with: map[string]string{"client-cert-file": certs.Client.Cert}},
		{flag: "client-cert-auth", value: "true"},
		{flag: "client-crl-file", value: certs.CA},
		{flag: "client-cert-allowed-hostname", value: "h1,h2"},
		{flag: "trusted-ca-file", value: certs.CA},
		{flag: "auto-tls", value: "true"},
		{flag: "peer-cert-file", value: certs.Server.Cert, with: map[string]string{"peer-key-file": certs.Server.Key}},
		{flag: "peer-key-file", value: certs.Server.Key, with: map[string]string{"peer-cert-file": certs.Server.Cert}},
		{flag: "peer-client-cert-file", value: certs.Client.Cert, with: map[string]string{"peer-client-key-file": certs.Client.Key}},
		{flag: "peer-client-key-file", value: certs.Client.Key, with: map[string]string{"peer-client-cert-file": certs.Client.Cert}},
		{flag: "peer-client-cert-auth", value: "true"},
		{flag: "peer-crl-file", value: certs.CA, with: pair("peer-")},
		{flag: "peer-cert-allowed-cn", value: "a,b"},
		{flag: "peer-cert-allowed-hostname", value: "h3,h4"},
		{flag: "peer-trusted-ca-file", value: certs.CA},
		{flag: "peer-auto-tls", value: "true"},
		{flag: "peer-skip-client-san-verification", value: "true"},
		{flag: "self-signed-cert-validity", value: "2"},
		{flag: "cipher-suites", value: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		{flag: "tls-min-version", value: "TLS1.3"},
		{flag: "tls-max-version", value: "TLS1.3"},
		{flag: "cors", value: "http://a:1,http://b:2"},
		{flag: "host-whitelist", value: "a,b"},
		{flag: "auth-token", value: "jwt,sign-method=HS256,ttl=7m,priv-key=" + certs.Server.Key},
		{flag: "auth-token-ttl", value: "600"},
		{flag: "bcrypt-cost", value: "5"},
		// logging and tracing
		{flag: "logger", value: "zap", noEffect: true}, // the one value that there is
		{flag: "log-outputs", value: "stderr"},
		{flag: "log-level", value: "warn"},
		{flag: "log-format", value: "console"},
		{flag: "enable-log-rotation", value: "true", with: map[string]string{"log-outputs": logFile}},
		{flag: "log-rotation-config-json", value: `{"maxsize": 7}`},
		{flag: "enable-distributed-tracing", value: "true"},
		{flag: "distributed-tracing-address", value: "127.0.0.1:1"},
		{flag: "distributed-tracing-service-name", value: "svc"},
		{flag: "distributed-tracing-instance-id", value: "id7"},
		{flag: "distributed-tracing-sampling-rate", value: "7"},
		// deprecated: what is given is ignored
		{flag: "v2-deprecation", value: "write-only", noEffect: true},
	}
	for _, name := range []string{"cluster-active-size", "cluster-remove-delay", "cluster-sync-interval", "config", "force",
		"max-result-buffer", "max-retry-attempts", "peer-heartbeat-interval", "peer-election-timeout", "retry-interval",
		"snapshot", "v", "vv", "test.coverprofile", "test.outputdir"} {
		all = append(all, flagValue{flag: name, value: "7", noEffect: true})
	}
	return all
}

// all returns the value with those it needs, by flag.
func (v flagValue) all() map[string]string {
	m := map[string]string{v.flag: v.value}
	for name, value := range v.with {
		m[name] = value
	}
	return m
}

// args is the command line of it.
func (v flagValue) args() []string {
	var args []string
	for name, value := range v.all() {
		args = append(args, "--"+name+"="+value)
	}
	return args
}

// environ is the environment of it.
func (v flagValue) environ() []string {
	var env []string
	for name, value := range v.all() {
		env = append(env, "ETCD_"+upper(name)+"="+value)
	}
	return env
}

// file is a config file of it, or "" where a file cannot say it. paths says where
// in a file each flag stands.
func (v flagValue) file(t *testing.T, flags *flag.FlagSet, paths map[string]string) string {
	t.Helper()
	if paths[v.flag] == "" {
		return ""
	}
	doc := map[string]any{}
	for name, value := range v.all() {
		if paths[name] == "" {
			continue
		}
		at := doc
		steps := strings.Split(paths[name], ".")
		for _, step := range steps[:len(steps)-1] {
			inner, ok := at[step].(map[string]any)
			if !ok {
				inner = map[string]any{}
				at[step] = inner
			}
			at = inner
		}
		at[steps[len(steps)-1]] = fileValue(t, flags.Lookup(name), value)
	}
	raw, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// fileValue is a flag's value in the type that a config file wants: durations in
// nanoseconds, numbers and booleans without quotes.
func fileValue(t *testing.T, f *flag.Flag, value string) any {
	t.Helper()
	if f == nil {
		t.Fatal("no such flag")
	}
	if g, ok := f.Value.(flag.Getter); ok {
		switch g.Get().(type) {
		case time.Duration:
			d, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			return d.Nanoseconds()
		case bool:
			return value == "true"
		case uint, int, int64, uint64:
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	switch f.Name {
	case "discovery-endpoints", "log-outputs", "client-cert-allowed-hostname", "peer-cert-allowed-cn", "peer-cert-allowed-hostname", "cipher-suites":
		return strings.Split(value, ",") // lists; URLs, origins and hosts are one text with commas
	}
	if fmt.Sprintf("%T", f.Value) == "*flags.uint32Value" {
		n, _ := strconv.Atoi(value)
		return n
	}
	return value
}
