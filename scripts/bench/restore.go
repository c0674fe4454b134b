package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// names of the members that are restored, and where each is reached.
var restored = []struct{ name, peer string }{{"m1", "http://127.0.0.1:12380"}, {"m2", "http://127.0.0.1:22380"}, {"m3", "http://127.0.0.1:32380"}}

// restoring compares restores of one member, and of three. Each run writes into a
// new folder, on a disk that has nothing left to write from the run before.
func (b bench) restoring(dir, file string) ([]figure, error) {
	var members, initial []string
	for _, m := range restored {
		members = append(members, "--member", m.name+"="+m.peer)
		initial = append(initial, m.name+"="+m.peer)
	}
	plan := filepath.Join(dir, "restore.yaml")
	if _, err := sampled(append([]string{b.kvd, "snapshot", "restore", file, "--write-plan", plan}, members...)...); err != nil {
		return nil, err
	}
	etcdutl := func(out string, i int) []string {
		m := restored[i]
		return []string{filepath.Join(b.reference, "etcdutl"), "snapshot", "restore", file, "--data-dir", filepath.Join(out, m.name), "--name", m.name,
			"--initial-cluster", strings.Join(initial, ","), "--initial-advertise-peer-urls", m.peer}
	}
	into := func(commands func(out string) [][]string) func() (sample, error) {
		return func() (sample, error) { return inEmptyFolder(dir, commands) }
	}
	ours := into(func(out string) [][]string {
		return [][]string{{b.kvd, "snapshot", "restore", file, "--plan", plan, "--name", "m1", "--data-dir", filepath.Join(out, "m1"), "--yes", "--progress", "none"}}
	})
	theirs := into(func(out string) [][]string { return [][]string{etcdutl(out, 0)} })
	allOurs := into(func(out string) [][]string {
		return [][]string{{b.kvd, "snapshot", "restore", file, "--plan", plan, "--all", "--data-dir", out, "--yes", "--progress", "none"}}
	})
	allTheirs := into(func(out string) [][]string { return [][]string{etcdutl(out, 0), etcdutl(out, 1), etcdutl(out, 2)} })
	took, err := alternate(b.runs, ours, theirs, allOurs, allTheirs)
	if err != nil {
		return nil, err
	}
	note := b.note("the file in the page cache, nothing else to write")
	return append(versus(measuredCommand{"snapshot_restore", "kvd snapshot restore --plan --name", took[0]},
		measuredCommand{"snapshot_restore_etcdutl", "etcdutl snapshot restore", took[1]}, note),
		versus(measuredCommand{"snapshot_restore_three", "kvd snapshot restore --plan --all", took[2]},
			measuredCommand{"snapshot_restore_three_etcdutl", "etcdutl snapshot restore, three times", took[3]}, note)...), nil
}

// inEmptyFolder runs commands that write below a new folder, one after the other,
// and removes it. The sample is of all of them.
func inEmptyFolder(dir string, commands func(out string) [][]string) (sample, error) {
	out, err := os.MkdirTemp(dir, "out-")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(out)
	syscall.Sync()
	var all sample
	for _, c := range commands(out) {
		s, err := sampled(c...)
		if err != nil {
			return s, err
		}
		all.seconds += s.seconds
		all.cpu += s.cpu
		all.rssAnon = max(all.rssAnon, s.rssAnon)
	}
	return all, nil
}
