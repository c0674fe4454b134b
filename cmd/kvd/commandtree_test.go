package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// leafCommands lists every command that does something, by its path without
// "kvd". It reads docs/commands, which TestCommandDocs holds against the tree.
func leafCommands(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(repoRoot, "docs", "commands", "kvd_*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var leaves []string
	for _, path := range pages {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), "\n## Commands\n") {
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "kvd_"), ".md")
			leaves = append(leaves, strings.ReplaceAll(name, "_", " "))
		}
	}
	if len(leaves) < 10 {
		t.Fatalf("only %d commands were found in docs/commands", len(leaves))
	}
	return leaves
}

// withoutCluster lists the commands that talk to no running cluster of the
// user's, and why they don't.
func withoutCluster() map[string]string {
	return map[string]string{
		"serve":       "is a server itself",
		"config view": "reads settings only",
		"version":     "tells its own version",

		"snapshot status":  "reads a file",
		"snapshot verify":  "reads a file",
		"snapshot restore": "makes files of a file",
		"wal list":         "reads files",
		"wal dump":         "reads files",
		"wal stats":        "reads files",
		"wal verify":       "reads files",
		"loadgen report":   "reads files",
		"loadgen compare":  "reads files",
	}
}

// isWithoutCluster is true for what withoutCluster lists, and for drills.
func isWithoutCluster(command string) bool {
	// A drill starts servers of its own, of kvd's version.
	return withoutCluster()[command] != "" || strings.HasPrefix(command, "drill ")
}

// liveCommands lists the commands that talk to a running cluster.
func liveCommands(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(leafCommands(t), isWithoutCluster)
}

// Every command of the tree has been tried on every version of etcd, and it is
// known what it may: a new one can't be forgotten.
func TestEveryLiveCommandIsInThePages(t *testing.T) {
	leaves := leafCommands(t)
	for c := range withoutCluster() {
		if !slices.Contains(leaves, c) {
			t.Errorf("withoutCluster has %q, which is no command", c)
		}
	}
	for page, complaint := range map[string]string{
		"compatibility.md": "add it to versionTrials and run `make compatibility`, or to withoutCluster with a reason",
		"permissions.md":   "add it to neededRoles and to the page",
	} {
		raw, err := os.ReadFile(filepath.Join(repoRoot, "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		listed := commandsInTable(string(raw))
		for _, c := range liveCommands(t) {
			if !slices.Contains(listed, c) {
				t.Errorf("docs/%s does not list `%s`: %s", page, c, complaint)
			}
		}
		for _, c := range listed {
			if !slices.Contains(leaves, c) {
				t.Errorf("docs/%s lists `%s`, which is no command", page, c)
			}
		}
	}
}

// commandsInTable reads the commands in the first column of a page's tables:
// `quota --quota SIZE` is quota.
func commandsInTable(page string) []string {
	var out []string
	for line := range strings.Lines(page) {
		cell, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(cell, "`")
		words := strings.Fields(name)
		if i := slices.IndexFunc(words, func(w string) bool { return strings.ToLower(w) != w || strings.HasPrefix(w, "-") }); i >= 0 {
			words = words[:i]
		}
		if name = strings.Join(words, " "); name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func TestCommandsInTable(t *testing.T) {
	got := commandsInTable("| command |\n|---|\n| `quota --quota SIZE` | x |\n| `quota` | |\n| `member add NAME` |\n| no | `status` |\n")
	if want := []string{"quota", "member add"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
