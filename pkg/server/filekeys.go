package server

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"
)

// filePath returns where in a config file the value of a flag stands, as a path
// with dots, or "" if a file cannot say it. Most flags have a key of their own
// name (source: etcd 3.7.3, embed/config.go, the tags of Config and configJSON).
func filePath(flagName string) string {
	const client, peer, discovery = "client-transport-security.", "peer-transport-security.", "discovery-config."
	switch flagName {
	case "raft-read-timeout", "raft-write-timeout", "config-file", "version", "discovery-fallback":
		return ""
	case "client-crl-file":
		return "ClientTLSInfo.CRLFile" // Go's name: etcd forgot the tag, and reads it all the same
	case "peer-crl-file":
		return "PeerTLSInfo.CRLFile"
	case "cert-file", "key-file", "client-cert-file", "client-key-file", "client-cert-auth", "trusted-ca-file", "auto-tls":
		return client + flagName
	case "client-cert-allowed-hostname":
		return client + "allowed-hostname"
	case "peer-cert-file", "peer-key-file", "peer-client-cert-file", "peer-client-key-file", "peer-trusted-ca-file",
		"peer-auto-tls", "peer-skip-client-san-verification":
		return peer + strings.TrimPrefix(flagName, "peer-")
	case "peer-client-cert-auth":
		return peer + "client-cert-auth"
	case "peer-cert-allowed-cn":
		return peer + "allowed-cn"
	case "peer-cert-allowed-hostname":
		return peer + "allowed-hostname"
	case "socket-reuse-port", "socket-reuse-address":
		return "socket-options." + strings.TrimPrefix(flagName, "socket-")
	case "discovery-token":
		return discovery + "token"
	case "discovery-endpoints", "discovery-dial-timeout", "discovery-request-timeout", "discovery-keepalive-time", "discovery-keepalive-timeout":
		return discovery + "client." + strings.TrimPrefix(flagName, "discovery-")
	case "discovery-insecure-transport", "discovery-insecure-skip-tls-verify", "discovery-cert", "discovery-key", "discovery-cacert":
		return discovery + "client.secure." + strings.TrimPrefix(flagName, "discovery-")
	case "discovery-user":
		return discovery + "client.auth.username"
	case "discovery-password":
		return discovery + "client.auth.password"
	}
	if isIgnored(flagName) || isOwnFlag(flagName) {
		return ""
	}
	return flagName
}

// moreFileKeys are keys that a file may have and that no flag stands for.
func moreFileKeys() []string {
	keys := []string{"grpc-additional-server-options", "discovery-config.client.auth.token", "discovery-config.client.secure.server-name",
		"discovery-config.client.max-request-bytes", "discovery-config.client.max-recv-bytes",
		"client-transport-security.skip-client-san-verification", "client-transport-security.allowed-cn"}
	// The Go names of fields without a tag, which etcd reads although nobody means them.
	for _, field := range []string{"CertFile", "KeyFile", "ClientCertFile", "ClientKeyFile", "TrustedCAFile", "ClientCertAuth", "CRLFile",
		"InsecureSkipVerify", "SkipClientSANVerify", "ServerName", "AllowedCN", "AllowedHostname", "EmptyCN"} {
		keys = append(keys, "ClientTLSInfo."+field, "PeerTLSInfo."+field)
	}
	return append(keys, "ClientAutoTLS", "PeerAutoTLS", "CORS", "HostWhitelist",
		"ListenPeerUrls", "ListenClientUrls", "ListenClientHttpUrls", "AdvertisePeerUrls", "AdvertiseClientUrls", "ListenMetricsUrls")
}

// internalFileKeys are Go names of etcd's inner parts. A file that has one can
// only break etcd: a null there is a panic in embed.ConfigFromFile.
func internalFileKeys() []string {
	return []string{"ServerFeatureGate", "FlagsExplicitlySet", "ZapLoggerBuilder"}
}

// fileDoc is a config file as keys and values.
type fileDoc map[string]any

// has says whether a file sets the value at a path. Keys are compared without
// regard to case, as etcd's reader does.
func (d fileDoc) has(path string) bool {
	head, rest, deeper := strings.Cut(path, ".")
	for key, value := range d {
		if !strings.EqualFold(key, head) {
			continue
		}
		if !deeper {
			return true
		}
		if inner, ok := value.(map[string]any); ok && fileDoc(inner).has(rest) {
			return true
		}
	}
	return false
}

// paths lists every value of the file, sorted.
func (d fileDoc) paths() []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(d)) {
		if inner, ok := d[key].(map[string]any); ok {
			for _, p := range fileDoc(inner).paths() {
				all = append(all, key+"."+p)
			}
			continue
		}
		all = append(all, key)
	}
	return all
}

// noteUnknown warns of keys that etcd does not read. etcd says nothing: a
// misspelled quota is a default quota.
func (d fileDoc) noteUnknown(c *Config) {
	known := moreFileKeys()
	newPaths(func(flagName, path string) { known = append(known, path) })
	for _, path := range d.paths() {
		if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, path) }) {
			continue
		}
		fields := []string{"key", path, "path", c.file}
		if like := closest(path, known); like != "" {
			fields = append(fields, "did-you-mean", like)
		}
		c.note(true, "unknown key in the config file: etcd ignores it", fields...)
	}
}

// newPaths calls f for each flag that a file can say.
func newPaths(f func(flagName, path string)) {
	boundTo(embed.NewConfig()).set.VisitAll(func(fl *flag.Flag) {
		if path := filePath(fl.Name); path != "" {
			f(fl.Name, path)
		}
	})
}

// closest finds what was probably meant: the flag's own name where the key
// belongs into a section, or a key that differs in two letters at most.
func closest(path string, known []string) string {
	if p := filePath(path); p != "" && p != path {
		return p
	}
	return nearest(path, known)
}

// nearest is the word that differs in two letters at most, empty where none does.
func nearest(word string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(word, k); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// editDistance counts the letters to insert, delete or replace (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := last
			if a[i] != b[j] {
				d++
			}
			last = row[j+1]
			row[j+1] = min(d, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}

// checkInternal refuses keys that would end the process inside etcd.
func (d fileDoc) checkInternal(path string) error {
	for _, key := range internalFileKeys() {
		if d.has(key) {
			return usage("config_file", fmt.Sprintf("%s: %s", path, key), "not a setting but an inner part of etcd",
				"feature gates are set with feature-gates: NAME=true")
		}
	}
	return nil
}
