package cli

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
)

// A command is the same whether or not the others were built beside it.
func TestBuiltAlone(t *testing.T) {
	app := func() *App {
		return &App{IO: &IOStreams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, Getenv: func(string) string { return "" }, Global: defaultGlobalFlags()}
	}
	var pages func(c *cobra.Command, into map[string]string)
	pages = func(c *cobra.Command, into map[string]string) {
		into[c.CommandPath()] = c.Long + c.UsageString()
		for _, sub := range c.Commands() {
			pages(sub, into)
		}
	}
	whole := map[string]string{}
	pages(newRootCmd(app(), contents()), whole)
	for _, e := range contents() {
		below := wanted([]string{e.name, "--help"})
		if e.name == "diagnose" {
			if len(below) != len(contents()) {
				t.Errorf("diagnose has %d commands to name", len(below))
			}
			continue
		}
		if len(below) != 1 || below[0].name != e.name {
			t.Fatalf("%s: %d commands are built", e.name, len(below))
		}
		alone := map[string]string{}
		cmd, _, err := newRootCmd(app(), below).Find([]string{e.name})
		if err != nil || cmd.Name() != e.name {
			t.Fatalf("%s: %v, found %s", e.name, err, cmd.Name())
		}
		pages(cmd, alone)
		for path, page := range alone {
			if page != whole[path] {
				t.Errorf("%s: %q\nbeside the others %q", path, page, whole[path])
			}
		}
	}
	for _, line := range [][]string{nil, {"--help"}, {"help", "wal"}, {"__complete", "wa"}, {"completion", "bash"}, {"wall"}} {
		if n := len(wanted(line)); n != len(contents()) {
			t.Errorf("%v: %d commands", line, n)
		}
	}
}
