package server_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"kvd/pkg/ops/fault"
	"kvd/pkg/server"
)

func urls(list []url.URL) []string {
	var out []string
	for _, u := range list {
		out = append(out, u.String())
	}
	return out
}

// setting is one etcd setting with a way to read it back.
type setting struct {
	flag, value string
	yaml        string // as a line of a config file; empty where a file has no such key
	read        func(*embed.Config) any
	want        any
}

func settings() []setting {
	return []setting{
		{"name", "m7", "name: m7", func(c *embed.Config) any { return c.Name }, "m7"},
		{"data-dir", "/tmp/d", "data-dir: /tmp/d", func(c *embed.Config) any { return c.Dir }, "/tmp/d"},
		{"quota-backend-bytes", "16777216", "quota-backend-bytes: 16777216", func(c *embed.Config) any { return c.QuotaBackendBytes }, int64(16777216)},
		{"heartbeat-interval", "50", "heartbeat-interval: 50", func(c *embed.Config) any { return c.TickMs }, uint(50)},
		{"max-concurrent-streams", "99", "max-concurrent-streams: 99", func(c *embed.Config) any { return c.MaxConcurrentStreams }, uint32(99)},
		{"initial-cluster-state", "existing", "initial-cluster-state: existing", func(c *embed.Config) any { return c.ClusterState }, "existing"},
		{"listen-peer-urls", "http://127.0.0.1:1,http://127.0.0.1:2", "listen-peer-urls: http://127.0.0.1:1,http://127.0.0.1:2",
			func(c *embed.Config) any { return fmt.Sprint(urls(c.ListenPeerUrls)) }, "[http://127.0.0.1:1 http://127.0.0.1:2]"},
		{"listen-metrics-urls", "http://127.0.0.1:3", "listen-metrics-urls: http://127.0.0.1:3",
			func(c *embed.Config) any { return fmt.Sprint(urls(c.ListenMetricsUrls)) }, "[http://127.0.0.1:3]"},
		{"initial-advertise-peer-urls", "http://10.1.2.3:1", "initial-advertise-peer-urls: http://10.1.2.3:1",
			func(c *embed.Config) any { return fmt.Sprint(urls(c.AdvertisePeerUrls)) }, "[http://10.1.2.3:1]"},
		{"cors", "http://a:1", "cors: http://a:1", func(c *embed.Config) any { return len(c.CORS) }, 1},
		{"host-whitelist", "a,b", "host-whitelist: a,b", func(c *embed.Config) any { return len(c.HostWhitelist) }, 2},
		{"peer-cert-allowed-cn", "a,b", "", func(c *embed.Config) any { return fmt.Sprint(c.PeerTLSInfo.AllowedCNs) }, "[a b]"},
		{"client-cert-allowed-hostname", "h", "", func(c *embed.Config) any { return fmt.Sprint(c.ClientTLSInfo.AllowedHostnames) }, "[h]"},
		{"cipher-suites", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "cipher-suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]",
			func(c *embed.Config) any { return len(c.CipherSuites) }, 1},
		{"log-outputs", "stdout", "log-outputs: [stdout]", func(c *embed.Config) any { return fmt.Sprint(c.LogOutputs) }, "[stdout]"},
		{"log-level", "warn", "log-level: warn", func(c *embed.Config) any { return c.LogLevel }, "warn"},
		{"auto-compaction-mode", "revision", "auto-compaction-mode: revision", func(c *embed.Config) any { return c.AutoCompactionMode }, "revision"},
		{"grpc-keepalive-min-time", "7s", "grpc-keepalive-min-time: 7000000000", func(c *embed.Config) any { return c.GRPCKeepAliveMinTime }, 7 * time.Second},
		{"pre-vote", "false", "pre-vote: false", func(c *embed.Config) any { return c.PreVote }, false},
		{"feature-gates", "InitialCorruptCheck=true", "feature-gates: InitialCorruptCheck=true",
			func(c *embed.Config) any { return c.ServerFeatureGate.Enabled("InitialCorruptCheck") }, true},
		{"max-txn-ops", "256", "max-txn-ops: 256", func(c *embed.Config) any { return c.MaxTxnOps }, uint(256)},
	}
}

// Every setting reaches etcd's configuration by each of its three ways.
func TestSettingsArrive(t *testing.T) {
	for _, s := range settings() {
		env := "ETCD_" + upper(s.flag) + "=" + s.value
		ways := map[string]func() (*server.Config, error){
			"flag": func() (*server.Config, error) { return server.Parse([]string{"--" + s.flag, s.value}, nil) },
			"flag=": func() (*server.Config, error) {
				return server.Parse([]string{"-" + s.flag + "=" + s.value}, nil)
			},
			"environment": func() (*server.Config, error) { return server.Parse(nil, []string{env}) },
		}
		if s.flag == "pre-vote" { // a boolean flag takes no separate value
			delete(ways, "flag")
		}
		if s.yaml != "" {
			path := filepath.Join(t.TempDir(), "etcd.yaml")
			if err := os.WriteFile(path, []byte(s.yaml+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ways["file"] = func() (*server.Config, error) {
				return server.Parse([]string{"--config-file", path, "--name=ignored"}, []string{env})
			}
			ways["file by environment"] = func() (*server.Config, error) {
				return server.Parse(nil, []string{"ETCD_CONFIG_FILE=" + path, "ETCD_NAME=ignored"})
			}
		}
		for way, parse := range ways {
			t.Run(s.flag+" by "+way, func(t *testing.T) {
				c, err := parse()
				if err != nil {
					t.Fatal(err)
				}
				if got := s.read(c.Etcd()); got != s.want {
					t.Errorf("got %v, want %v", got, s.want)
				}
			})
		}
	}
}

func upper(flag string) string {
	b := []byte(flag)
	for i, c := range b {
		switch {
		case c == '-':
			b[i] = '_'
		case c >= 'a' && c <= 'z':
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// What etcd's main sets by itself is set here too.
func TestDefaults(t *testing.T) {
	c, err := server.Parse([]string{"--name=x"}, []string{"PATH=/bin", "ETCD_VERSION=3.0", "ETCD_NAME_X=1"})
	if err != nil {
		t.Fatal(err)
	}
	e := c.Etcd()
	if e.WarningUnaryRequestDuration != embed.DefaultWarningUnaryRequestDuration {
		t.Errorf("warning-unary-request-duration %v", e.WarningUnaryRequestDuration)
	}
	if !e.FlagsExplicitlySet["name"] || len(e.FlagsExplicitlySet) != 1 {
		t.Errorf("explicitly set: %v", e.FlagsExplicitlySet)
	}
	if got := urls(e.AdvertiseClientUrls); !slices.Equal(got, []string{"http://localhost:2379"}) {
		t.Errorf("advertised: %v", got)
	}

	for _, args := range [][]string{{"--version"}, {"--name", "x", "--version"}} {
		if c, err = server.Parse(args, nil); err != nil || !c.ShowVersion {
			t.Errorf("%v: version %v, error %v", args, c.ShowVersion, err)
		}
	}
	for _, args := range [][]string{{"-h"}, {"--help"}, {"--name", "x", "-help"}} {
		if c, err = server.Parse(args, nil); err != nil || !c.ShowHelp {
			t.Errorf("%v: help %v, error %v", args, c.ShowHelp, err)
		}
	}
	// Discovery replaces the default initial cluster, as does a flag or not.
	if c, err = server.Parse([]string{"--discovery-srv=example.com"}, nil); err != nil || c.Etcd().InitialCluster != "" {
		t.Errorf("discovery: initial cluster %q, error %v", c.Etcd().InitialCluster, err)
	}
}

// An empty word, as of a blank line in a unit file, is named: nobody sees it in a message.
func TestParseEmptyArgument(t *testing.T) {
	_, err := server.Parse([]string{"--name", "x", "", "--quota-backend-bytes", "1"}, nil)
	if err == nil || !strings.Contains(err.Error(), "argument 3 of 5 is empty") {
		t.Error(err)
	}
}

// badInput is a start that must fail with one usage error of a certain cause.
type badInput struct {
	name  string
	args  []string
	env   []string
	file  string // content of a config file
	cause string
}

func badInputs() []badInput {
	return []badInput{
		{name: "unknown flag", args: []string{"--nope"}, cause: "flag"},
		{name: "stray argument", args: []string{"--name", "x", "y"}, cause: "flag"},
		{name: "gateway", args: []string{"gateway"}, cause: "unsupported"},
		{name: "number", args: []string{"--quota-backend-bytes", "much"}, cause: "flag"},
		{name: "duration", args: []string{"--grpc-keepalive-interval", "5"}, cause: "flag"},
		{name: "URL without port", args: []string{"--listen-client-urls", "http://127.0.0.1"}, cause: "flag"},
		{name: "URL scheme", args: []string{"--listen-peer-urls", "ftp://127.0.0.1:1"}, cause: "flag"},
		{name: "URL with path", args: []string{"--advertise-client-urls", "http://127.0.0.1:1/x"}, cause: "flag"},
		{name: "URL with a name to bind", args: []string{"--listen-peer-urls", "http://example.com:1"}, cause: "url"},
		{name: "URL in the environment", env: []string{"ETCD_LISTEN_CLIENT_URLS=foo"}, cause: "env"},
		{name: "number in the environment", env: []string{"ETCD_HEARTBEAT_INTERVAL=x"}, cause: "env"},
		{name: "profile", args: []string{"--profile", "kubernets"}, cause: "profile"},
		{name: "output without print", args: []string{"-o", "json"}, cause: "flag"},
		{name: "output format", args: []string{"--print-config", "-o", "xml"}, cause: "flag"},
		{name: "no advertised client URL", args: []string{"--listen-client-urls", "http://127.0.0.1:1"}, cause: "advertise_client_urls"},
		{name: "cluster state", args: []string{"--initial-cluster-state", "old"}, cause: "flag"},
		{name: "v2 proxy", args: []string{"--discovery-fallback", "proxy"}, cause: "flag"},
		{name: "two ways to bootstrap", args: []string{"--initial-cluster", "a=http://127.0.0.1:1", "--discovery-srv", "example.com"}, cause: "conflict"},
		{name: "election timeout", args: []string{"--election-timeout", "100"}, cause: "invalid"},
		{name: "negative check time", args: []string{"--corrupt-check-time=-1s"}, cause: "invalid"},
		{name: "no room for a request", args: []string{"--max-request-bytes=0"}, cause: "invalid"},
		{name: "negative learners", args: []string{"--max-learners=-1"}, cause: "invalid"},
		{name: "log level", args: []string{"--log-level", "loud"}, cause: "log_level"},
		{name: "log output", args: []string{"--log-outputs", "stderr,", "--enable-log-rotation"}, cause: "log_output"},
		{name: "log format", args: []string{"--log-format", "xml"}, cause: "invalid"},
		{name: "compaction mode", args: []string{"--auto-compaction-mode", "never"}, cause: "invalid"},
		{name: "TLS version", args: []string{"--tls-min-version", "SSL3"}, cause: "invalid"},
		{name: "feature gate", args: []string{"--feature-gates", "Nope=true"}, cause: "flag"},
		{name: "https without certificate", args: []string{"--listen-client-urls", "https://127.0.0.1:1",
			"--advertise-client-urls", "https://127.0.0.1:1"}, cause: "certificate_missing"},
		{name: "certificate file missing", args: []string{"--listen-client-urls", "https://127.0.0.1:1",
			"--advertise-client-urls", "https://127.0.0.1:1", "--cert-file", "/nowhere/c", "--key-file", "/nowhere/k"}, cause: "certificate_missing"},
		{name: "certificate without key", args: []string{"--listen-client-urls", "https://127.0.0.1:1",
			"--advertise-client-urls", "https://127.0.0.1:1", "--cert-file", "/nowhere/c"}, cause: "certificate_missing"},
		{name: "peer CA missing", args: []string{"--peer-trusted-ca-file", "/nowhere/ca"}, cause: "certificate_missing"},
		{name: "peer CA is no certificate", args: []string{"--peer-trusted-ca-file", "/dev/null"}, cause: "certificate_invalid"},
		{name: "file: not there", args: []string{"--config-file", "/nowhere/etcd.yaml"}, cause: "config_file"},
		{name: "file: not YAML", file: "name: [", cause: "config_file"},
		{name: "file: URL", file: "listen-client-urls: foo", cause: "url"},
		{name: "file: metrics URL", file: "listen-metrics-urls: http://127.0.0.1", cause: "url"},
		{name: "file: CORS", file: "cors: nothing", cause: "url"},
		{name: "file: log level", file: "log-level: loud", cause: "log_level"},
		{name: "file: log level of another type", file: "log-level: 7", cause: "log_level"},
		{name: "file: log output", file: "log-outputs: [\"\"]\nenable-log-rotation: true", cause: "log_output"},
		{name: "file: type", file: "heartbeat-interval: soon", cause: "invalid"},
		{name: "file: feature gate", file: "feature-gates: Nope=true", cause: "invalid"},
		{name: "file: inner part", file: "FlagsExplicitlySet: null", cause: "config_file"},
		{name: "file: another inner part", file: "serverfeaturegate: null", cause: "config_file"},
		{name: "file: duration with a unit", file: "grpc-keepalive-interval: 5s", cause: "invalid"},
		{name: "token kind", args: []string{"--auth-token", "jwz"}, cause: "auth_token"},
		{name: "token without method", args: []string{"--auth-token", "jwt"}, cause: "auth_token"},
		{name: "token option without value", args: []string{"--auth-token", "jwt,sign-method"}, cause: "auth_token"},
		{name: "token key missing", args: []string{"--auth-token", "jwt,sign-method=RS256,pub-key=/nowhere/k"}, cause: "auth_token"},
		{name: "token without key", args: []string{"--auth-token", "jwt,sign-method=RS256"}, cause: "auth_token"},
		{name: "token key is no key", args: []string{"--auth-token", "jwt,sign-method=RS256,priv-key=/dev/null,pub-key=/etc/hostname"}, cause: "auth_token"},
		{name: "token lifetime", args: []string{"--auth-token", "jwt,sign-method=HS256,ttl=soon"}, cause: "auth_token"},
		{name: "file: token", file: "auth-token: jwt", cause: "auth_token"},
		{name: "file: transport security", file: "peer-transport-security: 7", cause: "invalid"},
		{name: "file: certificate", file: "listen-client-urls: https://127.0.0.1:1\nadvertise-client-urls: https://127.0.0.1:1\n" +
			"client-transport-security: {cert-file: /nowhere/c, key-file: /nowhere/k}", cause: "certificate_missing"},
	}
}

// Bad input is a usage error with a cause and a hint, and never the end of the
// process: within this test an exit or a panic would be noticed.
func TestBadInput(t *testing.T) {
	for _, tc := range badInputs() {
		t.Run(tc.name, func(t *testing.T) {
			args := tc.args
			if tc.file != "" {
				path := filepath.Join(t.TempDir(), "etcd.yaml")
				if err := os.WriteFile(path, []byte(tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
				args = []string{"--config-file", path}
			}
			_, err := server.Parse(args, tc.env)
			if err == nil {
				t.Fatal("no error")
			}
			if got := fault.KindOf(err); got != fault.Usage {
				t.Errorf("kind %s, want usage: %v", got, err)
			}
			if got := fault.CauseOf(err); got != tc.cause {
				t.Errorf("cause %q, want %q: %v", got, tc.cause, err)
			}
			if fault.HintOf(err) == "" {
				t.Errorf("no hint with: %v", err)
			}
			t.Logf("%v (%s)", err, fault.HintOf(err))
		})
	}
}
