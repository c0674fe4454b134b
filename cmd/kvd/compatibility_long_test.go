//go:build long

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The part of the page that is made from the run.
const (
	matrixBegin = "<!-- made from a run by `make compatibility`; do not edit -->\n"
	matrixEnd   = "<!-- end of what is made from a run -->\n"
)

// holdCompatibility compares the page with the run, or writes it with -update.
func holdCompatibility(t *testing.T, r results) {
	t.Helper()
	path := filepath.Join(repoRoot, "docs", "compatibility.md")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), matrixBegin)
	_, after, ok2 := strings.Cut(rest, matrixEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the matrix", path)
	}
	page := before + matrixBegin + matrix(t, r) + matrixEnd + after
	if t.Failed() {
		return // a difference that nobody explains does not become a note
	}
	switch {
	case *update:
		err = os.WriteFile(path, []byte(page), 0o644)
	case page != string(raw):
		err = fmt.Errorf("%s is not what came out: run `make compatibility`, and look at the difference", path)
	}
	if err != nil {
		t.Error(err)
	}
}

// matrix is the table and its notes.
func matrix(t *testing.T, r results) string {
	t.Helper()
	var notes []string
	versions := versionsTried()
	newest := versions[len(versions)-1]
	var b strings.Builder
	b.WriteString("| command |")
	for _, v := range versions {
		fmt.Fprintf(&b, " %s |", r.releases[v])
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(versions)) + "\n")
	for i, tr := range versionTrials() {
		fmt.Fprintf(&b, "| `%s` |", tr.name())
		for _, v := range versions {
			worked, said := true, []string{}
			for _, members := range []int{1, 3} {
				o, reference := r.outcomes[v][members][i], r.outcomes[newest][members][i]
				differs, unexplained := differences(o, reference)
				for _, name := range unexplained {
					t.Errorf("kvd %s on etcd %s: %s is missing, and the table does not say why:\n%s", tr.name(), v, name, o.looked)
				}
				worked = worked && o.exit == 0
				for _, d := range differs {
					if !slices.Contains(said, d) {
						said = append(said, d)
					}
				}
			}
			b.WriteString(" " + cell(worked, said, &notes) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, n := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, n)
	}
	return b.String()
}

// cell is yes or no, with the numbers of the notes.
func cell(worked bool, said []string, notes *[]string) string {
	text := "no"
	if worked {
		text = "yes"
	}
	var refs []string
	for _, s := range said {
		i := slices.Index(*notes, s)
		if i < 0 {
			*notes = append(*notes, s)
			i = len(*notes) - 1
		}
		refs = append(refs, fmt.Sprint(i+1))
	}
	if len(refs) > 0 {
		text += " <sup>" + strings.Join(refs, ", ") + "</sup>"
	}
	return text
}
