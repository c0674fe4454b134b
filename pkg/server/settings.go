package server

import (
	"flag"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/embed"
)

// Origins of a setting, beside a flag (--name), a variable (ETCD_NAME) and the
// path of a config file.
const (
	OriginDefault = "default" // nobody said anything
	OriginDerived = "derived" // etcd makes it of other settings, as the initial cluster of the name
)

// Setting is one value that the server runs with.
type Setting struct {
	Key      string // the flag's name; feature-gates.NAME for a feature gate
	Value    string // as the flag would be written
	Origin   string // who said so: default, derived, profile NAME, --flag, ETCD_VARIABLE, or a file's path
	Redacted bool   // a secret that is set, Value does not show it
}

const redacted = "********"

// Settings lists every setting in alphabetical order. Flags that etcd ignores,
// and those that set nothing (--version, --config-file), are not among them.
func (c *Config) Settings() []Setting {
	c.derive()
	fs := boundTo(c.etcd)
	byHand := handCopied(c.etcd)
	var all []Setting
	fs.set.VisitAll(func(f *flag.Flag) {
		switch {
		case isIgnored(f.Name), isOwnFlag(f.Name), f.Name == "config-file", f.Name == "version":
			return
		case f.Name == embed.ServerFeatureGateFlagName:
			all = append(all, c.gates()...)
			return
		}
		s := Setting{Key: f.Name, Value: f.Value.String(), Origin: c.origin(f.Name)}
		if v, ok := byHand[f.Name]; ok {
			s.Value = v
		}
		if s.Key == "discovery-fallback" {
			s.Value = fallbackExit // the one value that etcd accepts
		}
		if isSecret(s.Key) && s.Value != "" {
			s.Value, s.Redacted = redacted, true
		}
		all = append(all, s)
	})
	return all
}

// isSecret says which settings are not shown: a password, or a user that may
// have its password behind a colon.
func isSecret(key string) bool { return key == "discovery-password" || key == "discovery-user" }

func (c *Config) origin(key string) string {
	if o := c.origins[key]; o != "" {
		return o
	}
	return OriginDefault
}

// gates is one setting per feature gate. The two collective names AllAlpha and
// AllBeta are not gates but ways to set them.
func (c *Config) gates() []Setting {
	var all []Setting
	gates := c.etcd.ServerFeatureGate.(featuregate.MutableFeatureGate).GetAll() //nolint:forcetypeassert // embed makes it
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if strings.HasPrefix(string(name), "All") {
			continue
		}
		key := embed.ServerFeatureGateFlagName + "." + string(name)
		all = append(all, Setting{Key: key, Value: fmt.Sprint(c.etcd.ServerFeatureGate.Enabled(name)), Origin: c.origin(key)})
	}
	return all
}

// handCopied reads back the settings that etcd's main copies by hand from a
// flag into the configuration (source: etcd 3.7.3, etcdmain/config.go).
func handCopied(cfg *embed.Config) map[string]string {
	return map[string]string{
		"listen-peer-urls":             joinURLs(cfg.ListenPeerUrls),
		"initial-advertise-peer-urls":  joinURLs(cfg.AdvertisePeerUrls),
		"listen-client-urls":           joinURLs(cfg.ListenClientUrls),
		"listen-client-http-urls":      joinURLs(cfg.ListenClientHttpUrls),
		"advertise-client-urls":        joinURLs(cfg.AdvertiseClientUrls),
		"listen-metrics-urls":          joinURLs(cfg.ListenMetricsUrls),
		"discovery-endpoints":          strings.Join(cfg.DiscoveryCfg.Endpoints, ","),
		"cors":                         joinKeys(cfg.CORS),
		"host-whitelist":               joinKeys(cfg.HostWhitelist),
		"client-cert-allowed-hostname": strings.Join(cfg.ClientTLSInfo.AllowedHostnames, ","),
		"peer-cert-allowed-cn":         strings.Join(cfg.PeerTLSInfo.AllowedCNs, ","),
		"peer-cert-allowed-hostname":   strings.Join(cfg.PeerTLSInfo.AllowedHostnames, ","),
		"cipher-suites":                strings.Join(cfg.CipherSuites, ","),
		"max-concurrent-streams":       fmt.Sprint(cfg.MaxConcurrentStreams),
		"log-outputs":                  strings.Join(cfg.LogOutputs, ","),
		"initial-cluster-state":        cfg.ClusterState,
		"v2-deprecation":               string(cfg.V2Deprecation),
	}
}

func joinURLs(urls []url.URL) string {
	var all []string
	for _, u := range urls {
		all = append(all, u.String())
	}
	return strings.Join(all, ",")
}

func joinKeys(m map[string]struct{}) string { return strings.Join(slices.Sorted(maps.Keys(m)), ",") }

// Warnings lists what was odd about the input, one sentence each: variables that
// were ignored, keys that etcd does not know, a flag that is deprecated.
func (c *Config) Warnings() []string {
	c.derive()
	var all []string
	for _, n := range c.notes {
		if !n.warn {
			continue
		}
		text := n.msg
		for i := 0; i+1 < len(n.fields); i += 2 {
			text += fmt.Sprintf(" (%s: %s)", n.fields[i], n.fields[i+1])
		}
		all = append(all, text)
	}
	return all
}
