package server

import (
	"flag"
	"fmt"
	"io"

	"go.etcd.io/etcd/pkg/v3/flags"
	cconfig "go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
)

// Values of --discovery-fallback.
const (
	fallbackExit  = "exit"
	fallbackProxy = "proxy"
)

// flagSet is etcd's command line: what embed.Config defines, and the handful of
// flags that only etcd's main knows (source: etcd 3.7.3, etcdmain/config.go).
type flagSet struct {
	set          *flag.FlagSet
	configFile   string
	printVersion bool
	clusterState *flags.SelectiveStringValue
	fallback     *flags.SelectiveStringValue
	own          ownFlags
	cfg          *embed.Config // what the flags write into
}

// ignoredFlags are flags of old that etcd accepts and does nothing with.
func ignoredFlags() []string {
	return []string{
		"cluster-active-size", "cluster-remove-delay", "cluster-sync-interval", "config", "force",
		"max-result-buffer", "max-retry-attempts", "peer-heartbeat-interval", "peer-election-timeout",
		"retry-interval", "snapshot", "v", "vv", "test.coverprofile", "test.outputdir",
	}
}

// deprecation is a flag that etcd warns about.
type deprecation struct{ flag, msg string }

func deprecated() []deprecation {
	return []deprecation{
		{"max-snapshots", "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8."},
		{"v2-deprecation", "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value is enforced, ignoring user input."},
	}
}

// newFlagSet returns etcd's flags, bound to cfg where they can be. It writes
// nothing and never ends the process.
func newFlagSet(cfg *embed.Config) *flagSet {
	f := &flagSet{
		cfg:          cfg,
		set:          flag.NewFlagSet("kvd serve", flag.ContinueOnError),
		clusterState: flags.NewSelectiveStringValue(embed.ClusterStateFlagNew, embed.ClusterStateFlagExisting),
		fallback:     flags.NewSelectiveStringValue(fallbackExit, fallbackProxy),
	}
	f.set.SetOutput(io.Discard)
	f.set.Usage = func() {}

	cfg.AddFlags(f.set)
	f.set.StringVar(&f.configFile, "config-file", "",
		"Path to the server configuration file. Where one is given, other flags and environment variables are ignored.")
	f.set.Var(f.fallback, "discovery-fallback", fmt.Sprintf("Valid values include %q", f.fallback.Valids()))
	f.set.Var(f.clusterState, "initial-cluster-state",
		"Initial cluster state ('new' to bootstrap a cluster, 'existing' to join one). Ignored once the member has data.")
	f.set.Var(flags.NewSelectiveStringsValue(
		string(cconfig.V2Depr1WriteOnly), string(cconfig.V2Depr1WriteOnlySkipCheck),
		string(cconfig.V2Depr1WriteOnlyDrop), string(cconfig.V2Depr2Gone)),
		"v2-deprecation", "Deprecated; the default is enforced whatever is given.")
	f.set.BoolVar(&f.printVersion, "version", false, "Print the version and exit.")
	for _, name := range ignoredFlags() {
		f.set.Var(&flags.IgnoredFlag{Name: name}, name, "")
	}
	f.own.add(f.set)
	return f
}

// given returns the names of etcd's flags that were set on the command line.
func (f *flagSet) given() map[string]bool {
	given := map[string]bool{}
	f.set.Visit(func(fl *flag.Flag) {
		if !isOwnFlag(fl.Name) {
			given[fl.Name] = true
		}
	})
	return given
}

// copyTo moves the values that embed.Config's flags do not write themselves:
// lists, URLs and selections live in the flag set until they are copied by hand.
func (f *flagSet) copyTo(cfg *embed.Config, c *Config) {
	if rafthttp.ConnReadTimeout < rafthttp.DefaultConnReadTimeout {
		rafthttp.ConnReadTimeout = rafthttp.DefaultConnReadTimeout
		c.note(false, fmt.Sprintf("raft-read-timeout increased to minimum value: %v", rafthttp.DefaultConnReadTimeout))
	}
	if rafthttp.ConnWriteTimeout < rafthttp.DefaultConnWriteTimeout {
		rafthttp.ConnWriteTimeout = rafthttp.DefaultConnWriteTimeout
		c.note(false, fmt.Sprintf("raft-write-timeout increased to minimum value: %v", rafthttp.DefaultConnWriteTimeout))
	}

	fs := f.set
	cfg.ListenPeerUrls = flags.UniqueURLsFromFlag(fs, "listen-peer-urls")
	cfg.AdvertisePeerUrls = flags.UniqueURLsFromFlag(fs, "initial-advertise-peer-urls")
	cfg.ListenClientUrls = flags.UniqueURLsFromFlag(fs, "listen-client-urls")
	cfg.ListenClientHttpUrls = flags.UniqueURLsFromFlag(fs, "listen-client-http-urls")
	cfg.AdvertiseClientUrls = flags.UniqueURLsFromFlag(fs, "advertise-client-urls")
	cfg.ListenMetricsUrls = flags.UniqueURLsFromFlag(fs, "listen-metrics-urls")

	cfg.DiscoveryCfg.Endpoints = flags.UniqueStringsFromFlag(fs, "discovery-endpoints")
	cfg.CORS = flags.UniqueURLsMapFromFlag(fs, "cors")
	cfg.HostWhitelist = flags.UniqueStringsMapFromFlag(fs, "host-whitelist")

	cfg.ClientTLSInfo.AllowedHostnames = flags.StringsFromFlag(fs, "client-cert-allowed-hostname")
	cfg.PeerTLSInfo.AllowedCNs = flags.StringsFromFlag(fs, "peer-cert-allowed-cn")
	cfg.PeerTLSInfo.AllowedHostnames = flags.StringsFromFlag(fs, "peer-cert-allowed-hostname")
	cfg.CipherSuites = flags.StringsFromFlag(fs, "cipher-suites")
	cfg.MaxConcurrentStreams = flags.Uint32FromFlag(fs, "max-concurrent-streams")
	cfg.LogOutputs = flags.UniqueStringsFromFlag(fs, "log-outputs")
	cfg.ClusterState = f.clusterState.String()

	// Listening elsewhere than by default makes the default address a lie, so it
	// has to be said which address to advertise.
	if flags.IsSet(fs, "listen-client-urls") && !flags.IsSet(fs, "advertise-client-urls") {
		cfg.AdvertiseClientUrls = nil
	}
	discovers := cfg.DNSCluster != "" || cfg.DNSClusterServiceName != "" || len(cfg.DiscoveryCfg.Endpoints) > 0
	if discovers && !flags.IsSet(fs, "initial-cluster") {
		cfg.InitialCluster = ""
	}
	for name := range f.given() {
		cfg.FlagsExplicitlySet[name] = true
	}
}
