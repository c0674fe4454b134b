// Package config finds out where a cluster is and how to get in: from flags, the
// environment, kvd's config file, or what lies on this machine. It is the only
// importer of viper.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"

	"kvd/pkg/ops/fault"
)

// File is kvd's config file.
type File struct {
	Path     string             `mapstructure:"-"`
	Current  string             `mapstructure:"current"`
	Clusters map[string]Cluster `mapstructure:"clusters"`
	Defaults Defaults           `mapstructure:"defaults"`
	Warnings []string           `mapstructure:"-"`
}

// Cluster is one entry of the file: a bundle.
type Cluster struct {
	Endpoints    []string `mapstructure:"endpoints"`
	CACert       string   `mapstructure:"cacert"`
	Cert         string   `mapstructure:"cert"`
	Key          string   `mapstructure:"key"`
	ServerName   string   `mapstructure:"tls-server-name"`
	SkipVerify   bool     `mapstructure:"insecure-skip-tls-verify"`
	Insecure     *bool    `mapstructure:"insecure-transport"`
	User         text     `mapstructure:"user"`
	Password     text     `mapstructure:"password"`
	PasswordFile string   `mapstructure:"password-file"`
	Timeouts     `mapstructure:",squash"`
}

// text is what must be written as text. YAML reads 0123, 1_000 and 1e3 as numbers,
// of which other characters come back.
type text string

// onlyText refuses anything else for a text.
func onlyText(from, to reflect.Type, value any) (any, error) {
	if to == reflect.TypeFor[text]() && from.Kind() != reflect.String {
		return nil, fmt.Errorf("is read as a %s: put it in quotes", from)
	}
	return value, nil
}

// Timeouts may stand with a cluster or under defaults.
type Timeouts struct {
	Dial             string `mapstructure:"dial-timeout"`
	Command          string `mapstructure:"command-timeout"`
	Member           string `mapstructure:"member-timeout"`
	KeepaliveTime    string `mapstructure:"keepalive-time"`
	KeepaliveTimeout string `mapstructure:"keepalive-timeout"`
}

// Defaults are for what has nothing to do with a particular cluster.
type Defaults struct {
	Output   string            `mapstructure:"output"`
	Progress string            `mapstructure:"progress"`
	Limits   map[string]string `mapstructure:"limits"` // of kvd diagnose, by name
	Timeouts `mapstructure:",squash"`
}

// DefaultPath returns where the config file is looked for when --config and
// KVD_CONFIG don't say; empty if there is no home to look in.
func DefaultPath(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "kvd", "config.yaml")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "kvd", "config.yaml")
	}
	return ""
}

// Load reads the config file: the one named by explicit, else by KVD_CONFIG, else
// at the default path, where it may be missing. Unknown keys are a usage error.
func Load(explicit string, getenv func(string) string) (*File, error) {
	path, optional := explicit, false
	if path == "" {
		path = getenv("KVD_CONFIG")
	}
	if path == "" {
		path, optional = DefaultPath(getenv), true
	}
	if path == "" {
		return &File{}, nil
	}
	if _, err := os.Stat(path); optional && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
		return &File{}, nil
	}
	return read(path, getenv)
}

func read(path string, getenv func(string) string) (*File, error) {
	// No delimiter that a cluster's name could contain.
	v := viper.NewWithOptions(viper.KeyDelimiter("\x00"))
	v.SetConfigFile(path)
	v.SetConfigType("yaml")
	if err := v.ReadInConfig(); err != nil {
		return nil, wrong(path, strings.TrimPrefix(err.Error(), "While parsing config: "), "see docs/config.md for its form")
	}
	f := &File{}
	var md mapstructure.Metadata
	if err := v.Unmarshal(f, func(dc *mapstructure.DecoderConfig) {
		dc.Metadata, dc.DecodeHook = &md, mapstructure.ComposeDecodeHookFunc(dc.DecodeHook, onlyText)
	}); err != nil {
		return nil, wrong(path, oneLine(err), "see docs/config.md for the type of each key")
	}
	if len(md.Unused) > 0 {
		sort.Strings(md.Unused)
		return nil, wrong(path, fmt.Sprintf("unknown key %s", strings.Join(md.Unused, ", ")),
			"known are current, clusters and defaults, and for a cluster endpoints, cacert, cert, key, tls-server-name, insecure-skip-tls-verify, insecure-transport, user, password, password-file and the timeouts")
	}
	f.Path = path
	if f.Current != "" {
		if _, err := f.cluster(f.Current); err != nil {
			return nil, err
		}
	}
	f.resolvePaths(getenv)
	f.warn()
	return f, nil
}

func wrong(path, msg, hint string) error {
	return &fault.Error{Kind: fault.Usage, Cause: "config_file", Op: "config file", Subject: path, Msg: msg, Hint: hint}
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", " ")), " ")
}

// cluster finds an entry. Names are not case-sensitive.
func (f *File) cluster(name string) (Cluster, error) {
	if c, ok := f.Clusters[strings.ToLower(name)]; ok {
		return c, nil
	}
	path, hint := f.Path, "it has no clusters"
	if path == "" {
		path, hint = "(there is none)", "write one, see docs/config.md"
	}
	if names := f.Names(); len(names) > 0 {
		hint = "it has " + strings.Join(names, ", ")
	}
	return Cluster{}, &fault.Error{Kind: fault.Usage, Cause: "cluster_name", Op: "config file", Subject: path,
		Msg: fmt.Sprintf("no cluster %q", name), Hint: hint}
}

// Names lists the clusters of the file.
func (f *File) Names() []string {
	names := []string{}
	for n := range f.Clusters {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// resolvePaths makes paths in the file relative to it, so that it works from
// any folder.
func (f *File) resolvePaths(getenv func(string) string) {
	dir := filepath.Dir(f.Path)
	for name, c := range f.Clusters {
		for _, p := range []*string{&c.CACert, &c.Cert, &c.Key, &c.PasswordFile} {
			switch rest, home := strings.CutPrefix(*p, "~/"); {
			case *p == "" || filepath.IsAbs(*p):
			case home && getenv("HOME") != "":
				*p = filepath.Join(getenv("HOME"), rest)
			default:
				*p = filepath.Join(dir, *p)
			}
		}
		f.Clusters[name] = c
	}
}

// warn notes what is dangerous about the file.
func (f *File) warn() {
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return
	}
	for _, name := range f.Names() {
		if c := f.Clusters[name]; c.Password != "" || strings.Contains(string(c.User), ":") {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s holds the password of cluster %s and others may read it: chmod 600 %s, or use password-file", f.Path, name, f.Path))
		}
	}
}

// Default returns what the file says about a setting that has nothing to do
// with a cluster: output or progress. Empty if it says nothing.
func (f *File) Default(name string) string {
	switch name {
	case "output":
		return f.Defaults.Output
	case "progress":
		return f.Defaults.Progress
	}
	return ""
}
