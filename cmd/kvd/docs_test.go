package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// What the documents show is run. A fenced block of kind `console` is a session:
// lines that begin with "$ " are commands, what follows is what they print
// (stdout and stderr as they come). A second word gives the session a throwaway
// cluster of three members, or what else it needs, which the blocks of that kind in
// one file share:
//
//   - `console registry`: none; the snapshot of a real API server's etcd is backup.db
//   - `console cluster`: empty
//   - `console nospace`: filled until it was read-only
//   - `console kubernetes`: with what the API server of the recorded trace wrote
//   - `console history`: the same, and then a node's status written over and over
//   - `console changes`: with a small shop in which things have changed since before.db
//   - `console dead`: with one member killed, and an ssh that starts it
//   - `console noquorum`: with two of three killed
//   - `console backup`: as kubernetes, with the page's script in the PATH
//   - `console lost`: all killed, the data of two gone, two snapshots in the folder, and
//     an ssh and an scp to the members' hosts
//   - `console wal`: as kubernetes, with deletions and a busy writer, and an ssh that reads
//   - `console powerloss`: all killed, the log of one torn, that of another damaged, and
//     an ssh to the members' hosts
//
// The commands of a session run in one folder.
//
// Numbers, sizes, IDs, durations and ports differ from run to run and are not
// compared; a line of "…" stands for any lines, and within a line "…" stands for
// anything. A command whose line ends in "# exit 3" must end with 3, others with 0.

// session is the commands of one kind in one file.
type session struct {
	file, kind string
	steps      []docStep
}

type docStep struct {
	line    int
	command string
	exit    int
	want    []string
}

// The walk through the main job comes with `make test`, all other pages with
// `make test-more`.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	runDocuments(t, isTour)
}

func TestDocumentedCommands_more(t *testing.T) {
	t.Parallel()
	runDocuments(t, func(file string) bool { return !isTour(file) })
}

func isTour(file string) bool { return file == "tour.md" }

func runDocuments(t *testing.T, which func(file string) bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repoRoot, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	runbooks, err := filepath.Glob(filepath.Join(repoRoot, "docs", "runbooks", "*.md"))
	if err != nil || len(runbooks) == 0 {
		t.Fatal("no runbooks", err)
	}
	ran := 0
	guides, err := filepath.Glob(filepath.Join(repoRoot, "docs", "guides", "*.md"))
	if err != nil || len(guides) == 0 {
		t.Fatal("no guides", err)
	}
	for _, file := range slices.Concat(files, runbooks, guides, []string{filepath.Join(repoRoot, "README.md")}) {
		if !which(filepath.Base(file)) {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sessions(filepath.Base(file), string(raw)) {
			ran += len(s.steps)
			t.Run(s.file+"/"+s.kind, func(t *testing.T) {
				t.Parallel()
				runSession(t, s)
			})
		}
	}
	if ran == 0 {
		t.Error("none of the documents shows a command")
	}
}

func runSession(t *testing.T, s session) {
	kvd, err := exec.LookPath("kvd") // this test binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	env := append(withoutClusters(os.Environ()), "HOME="+t.TempDir())
	dir := t.TempDir()
	switch s.kind {
	case "console":
	case "console registry":
		if err := os.WriteFile(filepath.Join(dir, "backup.db"), realRegistry(t), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		env = append(env, clusterForDocs(t, kvd, s.kind, dir)...)
	}
	for _, step := range s.steps {
		cmd := exec.Command("sh", "-c", step.command) //nolint:gosec // our own documents
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if code, err := exitCodeOf(err); err != nil || code != step.exit {
			t.Fatalf("%s:%d: %s: exit code %d (%v), want %d\n%s", s.file, step.line, step.command, code, err, step.exit, out)
		}
		if diff := docDiff(step.want, strings.Split(string(out), "\n")); diff != "" {
			t.Errorf("%s:%d: %s: %s\nprinted:\n%s", s.file, step.line, step.command, diff, out)
		}
	}
}

// withoutClusters takes out of an environment what says where a cluster is.
func withoutClusters(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		for _, prefix := range []string{"KVD_", "ETCDCTL_", "XDG_CONFIG_HOME="} {
			if strings.HasPrefix(v, prefix) {
				return true
			}
		}
		return false
	})
}

// docSetup prepares the cluster of a session and the folder that its commands run
// in, and returns what its environment has besides.
type docSetup func(ctx context.Context, t *testing.T, c *servertest.Cluster, dir string) []string

func docSetups() map[string]docSetup {
	return map[string]docSetup{
		"console cluster":    filled(func(context.Context, *testing.T, *clientv3.Client) {}),
		"console nospace":    filled(fillForDocs),
		"console kubernetes": filled(kubernetesForDocs),
		"console history":    filled(historyForDocs),
		"console dead":       deadForDocs,
		"console noquorum":   noQuorumForDocs,
		"console backup":     backupForDocs,
		"console lost":       lostForDocs,
		"console changes":    changesForDocs,
		"console wal":        walForDocs,
		"console powerloss":  powerLossForDocs,
	}
}

// filled is a setup that only writes.
func filled(write func(context.Context, *testing.T, *clientv3.Client)) docSetup {
	return func(ctx context.Context, t *testing.T, c *servertest.Cluster, _ string) []string {
		t.Helper()
		write(ctx, t, c.Client(t))
		return nil
	}
}

// clusterForDocs starts the cluster of a session and returns its environment.
func clusterForDocs(t *testing.T, kvd, kind, dir string) []string {
	t.Helper()
	setup := docSetups()[kind]
	if setup == nil {
		t.Fatalf("no session is of the kind %q", kind)
	}
	c := servertest.Start(t, servertest.Options{Options: local.Options{
		Members: 3, QuotaBytes: 16 << 20, Command: local.Command{Path: kvd, Args: []string{"serve"}},
	}})
	return append(setup(servertest.Context(t, time.Minute), t, c, dir), "KVD_ENDPOINTS="+strings.Join(c.Endpoints(), ","))
}

// fillForDocs writes one key over and over until the cluster is read-only, so
// that almost all of the file is history.
func fillForDocs(ctx context.Context, t *testing.T, client *clientv3.Client) {
	t.Helper()
	const key, size = "/registry/configmaps/default/busy", 256 << 10
	if err := putUntilFull(ctx, client, key, size); err != nil {
		t.Fatal(err)
	}
	if err := fillRest(ctx, client, key, size); err != nil {
		t.Fatal(err)
	}
	if err := sizesSettled(ctx, client); err != nil {
		t.Fatal(err)
	}
}

// kubernetesForDocs replays the recorded trace.
func kubernetesForDocs(ctx context.Context, t *testing.T, client *clientv3.Client) {
	t.Helper()
	if err := replayTrace(ctx, client, readTrace(t)); err != nil {
		t.Fatal(err)
	}
}

// historyForDocs adds 8 MiB of history to what the recorded API server wrote.
func historyForDocs(ctx context.Context, t *testing.T, client *clientv3.Client) {
	t.Helper()
	kubernetesForDocs(ctx, t, client)
	for range 64 {
		if _, err := client.Put(ctx, "/registry/minions/n1", strings.Repeat("v", 128<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := sizesSettled(ctx, client); err != nil {
		t.Fatal(err)
	}
}

// sessions reads the console blocks of a document.
func sessions(file, text string) []session {
	var all []session
	current := -1
	for n, line := range strings.Split(text, "\n") {
		if kind, fence := strings.CutPrefix(line, "```"); fence {
			if current >= 0 || !strings.HasPrefix(kind, "console") {
				current = -1
				continue
			}
			current = sessionOf(&all, file, kind)
			continue
		}
		if current < 0 {
			continue
		}
		s := &all[current]
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			step := docStep{line: n + 1, command: command}
			if before, code, ok := strings.Cut(command, "# exit "); ok {
				step.command = strings.TrimSpace(before)
				_, _ = fmt.Sscan(code, &step.exit)
			}
			s.steps = append(s.steps, step)
		} else if len(s.steps) > 0 {
			last := &s.steps[len(s.steps)-1]
			last.want = append(last.want, line)
		}
	}
	return all
}

func sessionOf(all *[]session, file, kind string) int {
	for i, s := range *all {
		if s.kind == kind {
			return i
		}
	}
	*all = append(*all, session{file: file, kind: kind})
	return len(*all) - 1
}

// docDiff compares what a document shows with what was printed; empty lines at
// the end of either do not count. The difference it names is the one furthest
// down.
func docDiff(want, got []string) string {
	want, got = withoutEnd(want), withoutEnd(got)
	diff, furthest := "", -1
	note := func(w int, format string, args ...any) bool {
		if w > furthest {
			diff, furthest = fmt.Sprintf(format, args...), w
		}
		return false
	}
	type place struct{ w, g int }
	failed := map[place]bool{} // so that no place is looked at twice
	var match func(w, g int) bool
	match = func(w, g int) bool {
		switch {
		case failed[place{w, g}]:
			return false
		case w == len(want) && g == len(got):
			return true
		case w == len(want):
			return note(w, "%q was printed, and is not shown", got[g])
		case strings.TrimSpace(want[w]) == "…":
			if match(w+1, g) || g < len(got) && match(w, g+1) {
				return true
			}
		case g == len(got):
			return note(w, "%q was not printed", want[w])
		case !lineMatches(want[w], got[g]):
			note(w, "shown as\n  %s\nprinted as\n  %s", masked(want[w]), masked(got[g]))
		case match(w+1, g+1):
			return true
		}
		failed[place{w, g}] = true
		return false
	}
	if match(0, 0) {
		return ""
	}
	return diff
}

// withoutEnd takes off the empty lines at the end.
func withoutEnd(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// lineMatches compares a line that a document shows with one that was printed.
func lineMatches(want, got string) bool {
	parts := strings.Split(masked(want), "…")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(masked(got))
}

// masked makes lines comparable that differ in numbers and widths only.
func masked(line string) string {
	for _, m := range []struct{ re, with string }{
		{`[0-9a-f]{12,16}\b`, "ID"},
		{`https?://[0-9.]+:\d+`, "URL"},
		{`\b\d+(\.\d+)? (B|KiB|MiB|GiB)\b`, "SIZE"},
		{`\b(\d+(\.\d+)? ?(h|m|s|ms|µs))+\b`, "TIME"},
		{`\d+(\.\d+)?`, "N"},
		{`[─-╿-]{2,}`, "-"},
		{`\s+`, " "},
	} {
		line = regexp.MustCompile(m.re).ReplaceAllString(line, m.with)
	}
	return strings.TrimSpace(line)
}

func TestDocumentComparison(t *testing.T) {
	doc := "x\n```console\n$ kvd status\nm1 (8e9e05c52164694d)  12 MiB\n…\nlast 3\n$ kvd alarm list  # exit 3\n```\n```sh\n$ kvd no\n```\n"
	got := sessions("f", doc)
	if len(got) != 1 || len(got[0].steps) != 2 || got[0].steps[1].exit != 3 || got[0].steps[1].command != "kvd alarm list" {
		t.Fatalf("%+v", got)
	}
	want := got[0].steps[0].want
	for printed, ok := range map[string]bool{
		"m1 (aaaaaaaaaaaaaaaa)   9 MiB\na\nb\nlast 4": true,
		"m1 (aaaaaaaaaaaaaaaa)   9 MiB\nlast 4":       true,
		"m2 x\na\nlast 4":                             false,
		"m1 (aaaaaaaaaaaaaaaa)   9 MiB\na":            false,
		"m1 (aaaaaaaaaaaaaaaa)   9 MiB\nlast 4\nmore": false,
		// "…" goes on where the rest fits, not where its first line does.
		"m1 (aaaaaaaaaaaaaaaa)   9 MiB\nlast 4\nx\nlast 5": true,
	} {
		if diff := docDiff(want, strings.Split(printed, "\n")); (diff == "") != ok {
			t.Errorf("%q: %q, want ok=%v", printed, diff, ok)
		}
	}
	for _, c := range []struct {
		shown, printed string
		same           bool
	}{
		{"m1  100 ms 3", "m1  4.2 s 81", true},
		{"m1  100 ms 3", "mx  100 ms 3", false},
		{"copied 3 MiB to … at once", "copied 12.5 KiB to DIR/m2 at once", true},
		{"copied 3 MiB to … at once", "copied 12.5 KiB to DIR/m2 slowly", false},
		{"a (b)…", "a (b) and more", true},
		{"a (b)…", "ab", false},
	} {
		if lineMatches(c.shown, c.printed) != c.same {
			t.Errorf("%q and %q: want the same: %v", c.shown, c.printed, c.same)
		}
	}
}
