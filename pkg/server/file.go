package server

import (
	"fmt"
	"os"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/types"
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
func (c *Config) fromFile(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return usageErr("config_file", path, err, "check --config-file (or ETCD_CONFIG_FILE)")
	}
	if err := checkFile(raw, path); err != nil {
		return err
	}
	// ConfigFromFile validates, and validating sets up the log: the level has
	// been checked above, everything else is checked below.
	cfg, err := embed.ConfigFromFile(path)
	if err != nil {
		return explainInvalid(err, path)
	}
	c.etcd = cfg
	c.note(false, "loaded server configuration, other configuration command line flags and environment variables will be ignored if provided", "path", path)
	return c.validate(path)
}

// checkFile finds what would end the process inside embed.ConfigFromFile: bad
// URLs (os.Exit), bad CORS origins and an unknown log level (panics).
func checkFile(raw []byte, path string) error {
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return usageErr("config_file", path, err, "the file is YAML or JSON with etcd's field names")
	}
	text := func(key string) string { s, _ := doc[key].(string); return s }
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
	if v, ok := doc["log-level"]; ok {
		if err := checkLogLevel(fmt.Sprint(v)); err != nil {
			return usageErr("log_level", subject("log-level"), err, logLevelHint)
		}
	}
	if v, ok := doc["log-outputs"].([]any); ok {
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
