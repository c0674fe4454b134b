package server_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	_ "unsafe" // for linkname

	"go.etcd.io/etcd/pkg/v3/flags"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"

	"kvd/pkg/server"
)

// etcd's main keeps its command line to itself. These two make it visible to
// this test, so that kvd is compared with etcd's own flags and etcd's own parser
// and not with a list that somebody wrote down. The struct mirrors
// etcdmain.config of etcd 3.7.3; TestEtcdCommandLine notices if it no longer does.
type etcdConfig struct {
	ec embed.Config
	cf struct {
		flagSet       *flag.FlagSet
		clusterState  *flags.SelectiveStringValue
		fallback      *flags.SelectiveStringValue
		v2deprecation *flags.SelectiveStringsValue
	}
	configFile   string
	printVersion bool
	ignored      []string
}

//go:linkname newEtcdConfig go.etcd.io/etcd/server/v3/etcdmain.newConfig
func newEtcdConfig() *etcdConfig

//go:linkname parseEtcdConfig go.etcd.io/etcd/server/v3/etcdmain.(*config).parse
func parseEtcdConfig(cfg *etcdConfig, args []string) error

var _ = etcdmain.Main // links what the names above stand for

// etcdFlags are etcd's flags, from its own main.
func etcdFlags() *flag.FlagSet { return newEtcdConfig().cf.flagSet }

// parseLikeEtcd has etcd's main read a command line, with the process's environment.
func parseLikeEtcd(t *testing.T, args []string) map[string]string {
	t.Helper()
	c := newEtcdConfig()
	if err := parseEtcdConfig(c, args); err != nil {
		t.Fatalf("etcd refuses %v: %v", args, err)
	}
	return fields(&c.ec)
}

func parseLikeKvd(t *testing.T, args, environ []string) map[string]string {
	t.Helper()
	c, err := server.Parse(args, environ)
	if err != nil {
		t.Fatalf("kvd refuses %v: %v", args, err)
	}
	return fields(c.Etcd())
}

// fields is a configuration as text, field by field, with the globals that two
// flags set. Functions and loggers are left out.
func fields(cfg *embed.Config) map[string]string {
	c := *cfg
	c.ClientTLSInfo.HandshakeFailure, c.PeerTLSInfo.HandshakeFailure = nil, nil
	all := map[string]string{
		"rafthttp.ConnReadTimeout":  rafthttp.ConnReadTimeout.String(),
		"rafthttp.ConnWriteTimeout": rafthttp.ConnWriteTimeout.String(),
		"DiscoveryCfg.Secure":       fmt.Sprintf("%#v", *c.DiscoveryCfg.Secure),
		"DiscoveryCfg.Auth":         fmt.Sprintf("%#v", *c.DiscoveryCfg.Auth),
		"ServerFeatureGate":         fmt.Sprint(c.ServerFeatureGate),
	}
	c.DiscoveryCfg.Secure, c.DiscoveryCfg.Auth = nil, nil
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && f.Type.Kind() != reflect.Func && f.Name != "ServerFeatureGate" {
			all[f.Name] = fmt.Sprintf("%#v", v.Field(i).Interface())
		}
	}
	return all
}

// differences lists the fields in which two configurations differ.
func differences(a, b map[string]string) []string {
	var all []string
	for name, value := range a {
		if b[name] != value {
			all = append(all, fmt.Sprintf("%s: %s and %s", name, value, b[name]))
		}
	}
	slices.Sort(all)
	return all
}

// No flag of etcd is missing, none has another default, and the table of values
// covers them all.
func TestEtcdCommandLine(t *testing.T) {
	etcd, kvd := map[string]string{}, map[string]string{}
	etcdFlags().VisitAll(func(f *flag.Flag) { etcd[f.Name] = f.DefValue })
	server.VisitEtcdFlags(func(f *flag.Flag) { kvd[f.Name] = f.DefValue })
	if len(etcd) != 128 {
		t.Errorf("etcd has %d flags, 3.7.3 has 128", len(etcd))
	}
	if diff := differences(etcd, kvd); len(diff) > 0 || len(etcd) != len(kvd) {
		t.Errorf("etcd has %d flags, kvd %d; different: %q", len(etcd), len(kvd), diff)
	}
	covered := map[string]bool{"config-file": true, "version": true}
	for _, v := range flagValues(t) {
		if covered[v.flag] {
			t.Errorf("%s is twice in the table", v.flag)
		}
		covered[v.flag] = true
	}
	for name := range etcd {
		if !covered[name] {
			t.Errorf("no value to try for --%s", name)
		}
	}
	if len(covered) != len(etcd) {
		t.Errorf("%d flags in the table, etcd has %d", len(covered), len(etcd))
	}
}

// Every flag of etcd by itself, by each of its ways: kvd makes the same
// configuration of it as etcd's own main, in every field, and it is not the
// default one. This also covers what etcd never logs.
func TestEveryFlagAsEtcd(t *testing.T) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "ETCD_") {
			t.Setenv(name, "") // etcd reads the process's
		}
	}
	paths := server.FilePaths()
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	if err := os.WriteFile(empty, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	byFlags, byFile := parseLikeEtcd(t, nil), parseLikeEtcd(t, []string{"--config-file=" + empty})
	ways := map[string]int{}
	for _, v := range flagValues(t) {
		try := func(way string, args, environ []string) {
			t.Run(v.flag+" by "+way, func(t *testing.T) {
				for _, kv := range environ {
					name, value, _ := strings.Cut(kv, "=")
					t.Setenv(name, value)
				}
				want := parseLikeEtcd(t, args)
				got := parseLikeKvd(t, args, environ)
				if diff := differences(want, got); len(diff) > 0 {
					t.Errorf("etcd and kvd differ: %s", strings.Join(diff, "\n"))
				}
				delete(want, "FlagsExplicitlySet")
				defaults := byFlags
				if way == "file" {
					defaults = byFile
				}
				same := len(differences(want, defaults)) == 0
				if same != v.noEffect {
					t.Errorf("as by default: %v, want %v", same, v.noEffect)
				}
				ways[way]++
			})
		}
		try("flag", v.args(), nil)
		try("environment", nil, v.environ())
		if text := v.file(t, etcdFlags(), paths); text != "" {
			path := filepath.Join(t.TempDir(), "etcd.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			try("file", []string{"--config-file=" + path}, nil)
		}
	}
	if ways["flag"] != 126 || ways["environment"] != 126 || ways["file"] != 108 {
		t.Errorf("tried %v; of 126 flags a file can say 108", ways)
	}
}
