package server

import (
	"fmt"
	"os"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/pkg/v3/flags"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/yaml"
)

// fileURLFields are the URL lists of a config file. A bad one ends the process
// inside embed.ConfigFromFile, so they are read here first.
func fileURLFields() []string {
	return []string{
		"listen-peer-urls", "listen-client-urls", "listen-client-http-urls",
		"initial-advertise-peer-urls", "advertise-client-urls", "listen-metrics-urls",
	}
}

// fromFile fills the configuration from a config file by etcd's own reader.
func (c *Config) fromFile() error {
	raw, err := os.ReadFile(c.file)
	if err != nil {
		return usageErr("config_file", c.file, err, "check --config-file (or ETCD_CONFIG_FILE)")
	}
	var doc fileDoc
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return usageErr("config_file", c.file, err, "the file is YAML or JSON with etcd's field names")
	}
	if err := doc.check(c.file); err != nil {
		return err
	}
	// ConfigFromFile validates, and validating sets up the log: the level has
	// been checked above, everything else is checked below.
	cfg, err := embed.ConfigFromFile(c.file)
	if err != nil {
		return explainInvalid(err, c.file)
	}
	c.etcd = cfg
	c.note(false, "loaded server configuration, other configuration command line flags and environment variables will be ignored if provided", "path", c.file)
	doc.noteUnknown(c)
	if err := c.applyFileProfile(doc); err != nil {
		return err
	}
	return c.validate(c.file)
}

// applyFileProfile lays the profile under the file, and notes what is from where.
func (c *Config) applyFileProfile(doc fileDoc) error {
	newPaths(func(flagName, path string) {
		if doc.has(path) {
			c.origins[flagName] = c.file
		}
	})
	for _, gate := range gatesSet(c.etcd.ServerFeatureGate.(featuregate.MutableFeatureGate)) { //nolint:forcetypeassert // embed makes it
		c.origins[gateKey(gate)] = c.file
	}
	fs := boundTo(c.etcd)
	if err := c.applyProfile(fs, doc.has); err != nil {
		return err
	}
	*c.etcd = *fs.cfg
	return c.applyProfileGates()
}

// check finds what would end the process inside embed.ConfigFromFile: bad URLs
// (os.Exit), bad CORS origins and an unknown log level (panics).
func (d fileDoc) check(path string) error {
	if err := d.checkInternal(path); err != nil {
		return err
	}
	text := func(key string) string { s, _ := d[key].(string); return s }
	subject := func(key string) string { return path + ": " + key }

	for _, key := range fileURLFields() {
		if v := text(key); v != "" {
			if _, err := types.NewURLs(strings.Split(v, ",")); err != nil {
				return usageErr("url", subject(key), err, urlHint(err))
			}
		}
	}
	if v := text("cors"); v != "" {
		if err := flags.NewUniqueURLsWithExceptions("", "*").Set(v); err != nil {
			return usageErr("url", subject("cors"), err, urlHint(err))
		}
	}
	if v, ok := d["log-level"]; ok {
		if err := checkLogLevel(fmt.Sprint(v)); err != nil {
			return usageErr("log_level", subject("log-level"), err, logLevelHint)
		}
	}
	if v, ok := d["log-outputs"].([]any); ok {
		for _, out := range v {
			if s, _ := out.(string); s == "" {
				return usage("log_output", subject("log-outputs"), "an output is empty", logOutputHint)
			}
		}
	}
	return nil
}

const (
	logLevelHint  = "one of debug, info, warn, error, panic, fatal"
	logOutputHint = "one of default, stderr, stdout, systemd/journal, or a file's path"
)

func checkLogLevel(level string) error {
	var l zapcore.Level
	return l.Set(level)
}
