package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	docLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	docHeading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	docCode    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// TestDocumentLinks follows the links from document to document, and to the
// heading that they name.
func TestDocumentLinks(t *testing.T) {
	links := 0
	for _, name := range repoFiles(t) {
		if !strings.HasSuffix(name, ".md") || strings.Contains(name, "docs/commands/") {
			continue
		}
		links += checkLinks(t, name)
	}
	if links < 50 {
		t.Errorf("only %d links were followed", links)
	}
}

func checkLinks(t *testing.T, name string) int {
	t.Helper()
	links := 0
	for _, m := range docLink.FindAllStringSubmatch(docCode.ReplaceAllString(readDoc(t, name), ""), -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") {
			continue
		}
		links++
		path := name
		if target != "" {
			path = filepath.Join(filepath.Dir(name), target)
		}
		if _, err := os.Stat(filepath.Join(repoRoot, path)); err != nil {
			t.Errorf("%s links to %s, which is not there", name, m[1])
		} else if anchor != "" && !anchors(readDoc(t, path))[anchor] {
			t.Errorf("%s links to %s, which has no such heading", name, m[1])
		}
	}
	return links
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repoRoot, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// anchors are the names that headings have for links: small letters, digits and
// hyphens, as the usual renderers make them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, h := range docHeading.FindAllStringSubmatch(text, -1) {
		a := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all[strings.ReplaceAll(a, " ", "-")] = true
	}
	return all
}
