//go:build long

package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/server"
	"kvd/pkg/server/servertest"
)

// startLine is what etcd and kvd log of their configuration when they start.
const startLine = "starting an etcd server"

// Stock etcd and kvd serve log the same effective configuration, field by field,
// for every flag that can be seen there, given by flag, environment and file.
// Flags are tried in groups: as many at once as etcd accepts together. Those that
// hide the line, need DNS or need a privilege are left to TestEveryFlagAsEtcd,
// as is everything that is never logged.
func TestStartLogAsStockEtcd(t *testing.T) {
	hidden := []string{"log-level", "log-format", "log-outputs", "enable-log-rotation", "discovery-srv", "discovery-srv-name", "memory-mlock"}
	etcd, kvd := servertest.Reference(t, "etcd"), servertest.Binary(t)
	paths, flags := server.FilePaths(), etcdFlags()
	defaults := startFields(t, etcd, nil, base(t, nil).args(), nil)
	seen := map[string]bool{}
	groups := grouped(t, hidden)
	for n, group := range groups {
		for _, way := range []string{"flag", "environment", "file"} {
			t.Run(fmt.Sprintf("group %d of %d by %s", n+1, len(groups), way), func(t *testing.T) {
				v := base(t, group)
				var args, env []string
				switch way {
				case "flag":
					args = v.args()
				case "environment":
					env = v.environ()
				default:
					path := filepath.Join(t.TempDir(), "etcd.yaml")
					if err := os.WriteFile(path, []byte(v.file(t, flags, paths)), 0o600); err != nil {
						t.Fatal(err)
					}
					args = []string{"--config-file=" + path}
				}
				want := startFields(t, etcd, nil, args, env)
				got := startFields(t, kvd, []string{"serve"}, args, env)
				if diff := differences(want, got); len(diff) > 0 || len(want) != len(got) {
					t.Errorf("etcd and kvd differ (%d and %d fields): %s", len(want), len(got), strings.Join(diff, "\n"))
				}
				for name, value := range want {
					if value != defaults[name] {
						seen[name] = true
					}
				}
				t.Logf("%d flags, %d fields equal", len(v.all()), len(want))
			})
		}
	}
	// The rest are versions, the machine, and what no flag can change.
	t.Logf("%d of %d fields were seen to change: %v", len(seen), len(defaults), slices.Sorted(maps.Keys(seen)))
	if len(seen) < 45 {
		t.Errorf("only %d fields changed", len(seen))
	}
}

// grouped puts the flags into as few groups as kvd accepts, first fit.
func grouped(t *testing.T, hidden []string) []map[string]string {
	t.Helper()
	var groups []map[string]string
next:
	for _, v := range flagValues(t) {
		if slices.Contains(hidden, v.flag) {
			continue
		}
		for _, g := range groups {
			if fits(t, g, v) {
				maps.Copy(g, v.all())
				continue next
			}
		}
		groups = append(groups, v.all())
	}
	return groups
}

func fits(t *testing.T, group map[string]string, v flagValue) bool {
	t.Helper()
	merged := maps.Clone(group)
	for name, value := range v.all() {
		if old, ok := merged[name]; ok && old != value {
			return false
		}
		merged[name] = value
	}
	_, err := server.Parse(base(t, merged).args(), nil)
	return err == nil
}

// base adds free ports to a group of values.
func base(t *testing.T, group map[string]string) flagValue {
	t.Helper()
	all := map[string]string{}
	for name, value := range group {
		for _, port := range []string{"12379", "12380", "12381", "12382", "12383"} {
			if strings.Contains(value, port) && strings.HasPrefix(name, "listen-") {
				value = strings.ReplaceAll(value, port, freePort(t))
			}
		}
		all[name] = value
	}
	for _, name := range []string{"listen-peer-urls", "listen-client-urls", "advertise-client-urls"} {
		if all[name] == "" {
			all[name] = "http://127.0.0.1:" + freePort(t)
		}
	}
	return flagValue{flag: "listen-peer-urls", value: all["listen-peer-urls"], with: all}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// startFields starts a server, waits for its start line, ends it, and returns
// the line's fields.
func startFields(t *testing.T, binary string, first, args, env []string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(servertest.Context(t, 60*time.Second), binary, append(slices.Clone(first), args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), append([]string{"PATH=/bin:/usr/bin"}, env...)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var all strings.Builder
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		var doc map[string]any
		if json.Unmarshal(lines.Bytes(), &doc) != nil || doc["msg"] != startLine {
			continue
		}
		fields := map[string]string{}
		for name, value := range doc {
			if name != "ts" && name != "caller" {
				fields[name] = fmt.Sprint(value)
			}
		}
		return fields
	}
	t.Fatalf("%s %v never said %q:\n%s", filepath.Base(binary), args, startLine, all.String())
	return nil
}
