package config

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// Names of the settings that make a bundle: those of etcdctl's flags, and the
// flags here.
const (
	Endpoints        = "endpoints"
	CACert           = "cacert"
	Cert             = "cert"
	Key              = "key"
	ServerName       = "tls-server-name"
	SkipVerify       = "insecure-skip-tls-verify"
	Insecure         = "insecure-transport"
	User             = "user"
	Password         = "password"
	PasswordFile     = "password-file"
	DialTimeout      = "dial-timeout"
	CommandTimeout   = "command-timeout"
	MemberTimeout    = "member-timeout"
	KeepaliveTime    = "keepalive-time"
	KeepaliveTimeout = "keepalive-timeout"
)

// bundleKeys are where a cluster is and how to get in; they come from one source.
func bundleKeys() []string {
	return []string{Endpoints, CACert, Cert, Key, ServerName, SkipVerify, Insecure, User, Password, PasswordFile}
}

// timeoutKeys are how patient to be; each comes from the first source that has it.
func timeoutKeys() []string {
	return []string{DialTimeout, CommandTimeout, MemberTimeout, KeepaliveTime, KeepaliveTimeout}
}

// envName is the environment variable of a setting, as etcdctl names its own.
func envName(prefix, key string) string {
	return prefix + "_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// EnvName is kvd's environment variable for a flag: --dial-timeout is
// KVD_DIAL_TIMEOUT.
func EnvName(flag string) string { return envName("KVD", flag) }

// values are settings by name, as text. A setting that is absent is not in it.
type values map[string]string

func fromEnv(prefix string, keys []string, getenv func(string) string) values {
	v := values{}
	for _, k := range keys {
		if s := getenv(envName(prefix, k)); s != "" {
			v[k] = s
		}
	}
	return v
}

func (c Cluster) values() values {
	v := values{}
	set := func(key, s string) {
		if s != "" {
			v[key] = s
		}
	}
	set(Endpoints, strings.Join(c.Endpoints, ","))
	set(CACert, c.CACert)
	set(Cert, c.Cert)
	set(Key, c.Key)
	set(ServerName, c.ServerName)
	if c.SkipVerify {
		set(SkipVerify, "true")
	}
	if c.Insecure != nil {
		set(Insecure, strconv.FormatBool(*c.Insecure))
	}
	set(User, string(c.User))
	set(Password, string(c.Password))
	set(PasswordFile, c.PasswordFile)
	return v
}

func (t Timeouts) values() values {
	v := values{}
	for key, s := range map[string]string{
		DialTimeout: t.Dial, CommandTimeout: t.Command, MemberTimeout: t.Member,
		KeepaliveTime: t.KeepaliveTime, KeepaliveTimeout: t.KeepaliveTimeout,
	} {
		if s != "" {
			v[key] = s
		}
	}
	return v
}

// fill writes the settings into a cluster.Config. Errors name the setting and
// where it came from.
func fill(vals []Value) (cluster.Config, error) {
	var c cluster.Config
	texts := map[string]*string{CACert: &c.CACert, Cert: &c.Cert, Key: &c.Key, ServerName: &c.ServerName, User: &c.User, Password: &c.Password}
	times := map[string]*time.Duration{
		DialTimeout: &c.DialTimeout, CommandTimeout: &c.CommandTimeout, MemberTimeout: &c.MemberTimeout,
		KeepaliveTime: &c.KeepaliveTime, KeepaliveTimeout: &c.KeepaliveTimeout,
	}
	for _, v := range vals {
		var err error
		switch v.Key {
		case Endpoints:
			c.Endpoints = splitEndpoints(v.text)
		case SkipVerify:
			c.InsecureSkipVerify, err = strconv.ParseBool(v.text)
		case Insecure:
			var plain bool
			plain, err = strconv.ParseBool(v.text)
			c.RequireTLS = !plain
		case PasswordFile:
			c.Password, err = readPassword(v.text)
		default:
			if t := times[v.Key]; t != nil {
				*t, err = positive(v.text)
			} else {
				*texts[v.Key] = v.text
			}
		}
		if err != nil {
			return c, &fault.Error{Kind: fault.Usage, Cause: "config_value", Op: "settings", Subject: v.where(), Msg: err.Error()}
		}
	}
	return c, nil
}

// where names a setting by its flag, or by its key and the source that has it.
func (v Value) where() string {
	if v.Origin == "--"+v.Key {
		return v.Origin
	}
	return v.Key + " of " + v.Origin
}

func positive(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q is not a duration above zero", s)
	}
	return d, err
}

// splitEndpoints splits at commas and forgives spaces, as etcdctl does.
func splitEndpoints(s string) []string {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return slices.DeleteFunc(parts, func(p string) bool { return p == "" })
}

func readPassword(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}
