package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kvd/pkg/diagnose"
)

// findingRun is what a test of pkg/diagnose has recorded, see Run there.
type findingRun struct {
	Test     string           `json:"test"`
	Bad      diagnose.Finding `json:"bad"`
	Remedy   []string         `json:"remedy"`
	Good     string           `json:"good"`
	Controls []string         `json:"controls"`
}

// TestFindingPages holds docs/findings against the catalogue and the recorded runs.
func TestFindingPages(t *testing.T) {
	want := findingPages(t)
	dir := filepath.Join(docsDir, "findings")
	if *update {
		writePages(t, dir, want)
		return
	}
	have, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(have) != len(want) {
		t.Errorf("%d pages, want %d (%v): run `make findings`", len(have), len(want), err)
	}
	for name, page := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != page {
			t.Errorf("docs/findings/%s is out of date (%v): run `make findings`", name, err)
		}
	}
}

func findingPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# Findings\n\nWhat `kvd diagnose` may say. Each page shows a run of a test: what it looks like, what helps, and what looks like it and is\nnone. Made by `make findings`; do not edit.\n\n| finding | |\n|---|---|\n")
	all := diagnose.Catalogue()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", "pkg", "diagnose", "testdata", "runs", id+".json"))
		var run findingRun
		if err == nil {
			err = json.Unmarshal(raw, &run)
		}
		if err != nil {
			t.Errorf("%s has no recorded run (%v): run `make findings`", id, err)
			continue
		}
		fmt.Fprintf(&index, "| [%s](%s.md) | %s |\n", id, id, all[id].Title)
		pages[id+".md"] = findingPage(all[id], run)
	}
	pages["README.md"] = index.String()
	return pages
}

func findingPage(e diagnose.Entry, r findingRun) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: %s\n\nWhy it matters: %s.\n\n## What it looks like\n\n", e.ID, e.Title, e.Why)
	if strings.HasPrefix(r.Test, "TestFixtures/") {
		fmt.Fprintf(&b, "From the table of made-up inputs (\"%s\"):\n\n", strings.TrimPrefix(r.Test, "TestFixtures/"))
	} else {
		fmt.Fprintf(&b, "From a run on real servers (`%s` in `pkg/diagnose`):\n\n", r.Test)
	}
	fmt.Fprintf(&b, "```text\n%s\n", strings.ToUpper(string(r.Bad.Severity)))
	writeFinding(&b, r.Bad)
	fmt.Fprintf(&b, "```\n\n## What helps\n\n```text\n%s\n```\n", strings.Join(r.Remedy, "\n"))
	if r.Good != "" {
		fmt.Fprintf(&b, "\n## Afterwards\n\n```text\n%s\n```\n", r.Good)
	}
	if len(r.Controls) > 0 {
		fmt.Fprint(&b, "\n## What looks like it and is none\n\n")
		for _, c := range r.Controls {
			fmt.Fprintf(&b, "- %s\n", c)
		}
	}
	return b.String()
}
