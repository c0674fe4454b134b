package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	largeValue = 6 << 10 // bytes of what an API server writes for a busy object
	smallValue = 50
	busyKeys   = 5000 // that the large values are written to, over and over
)

// wals measures what kvd does with write-ahead logs of a server: one of large
// values beside etcd-dump-logs and beside reading the files alone, and one of many
// small entries that all write another key, which is the hardest to count.
func wals(b bench) ([]figure, error) {
	dir, err := os.MkdirTemp("", "kvd-bench-wal-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	large, entries := filepath.Join(dir, "large"), b.walSize/largeValue
	if err := b.writeLog(large, entries, busyKeys, largeValue); err != nil {
		return nil, err
	}
	figures, err := b.largeLog(large, entries)
	if err != nil {
		return nil, err
	}
	small := filepath.Join(dir, "small")
	if err := b.writeLog(small, b.entries, b.entries, smallValue); err != nil {
		return nil, err
	}
	more, err := b.smallLog(small)
	return append(figures, more...), err
}

// writeLog has a server write a log as an API server makes it grow: a transaction
// that puts a value if the key is as it was, for each entry. No snapshot is taken,
// so that the log keeps them all.
func (b bench) writeLog(dir string, entries, keys int64, size int) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := startServer(ctx, b.kvd, dir, "--snapshot-count=1000000000")
	if err != nil {
		return err
	}
	defer s.stop()
	const workers = 64
	value := strings.Repeat("v", size)
	var next atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for range workers {
		wg.Go(func() {
			for i := next.Add(1); i <= entries && failed.Load() == nil; i = next.Add(1) {
				k := i % keys
				key := fmt.Sprintf("/registry/pods/namespace-%02d/pod-%07d", k%50, k)
				_, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), ">", -1)).
					Then(clientv3.OpPut(key, value)).Else(clientv3.OpGet(key)).Commit()
				if err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// largeLog compares the commands on the log of large values. etcd-dump-logs changes
// the folder that it reads, so that each of its runs gets a copy.
func (b bench) largeLog(dir string, entries int64) ([]figure, error) {
	data := filepath.Join(dir, "m1")
	segments, err := filepath.Glob(filepath.Join(data, "member", "wal", "*.wal"))
	if err != nil {
		return nil, err
	}
	command := func(args ...string) func() (sample, error) {
		return func() (sample, error) { return sampled(args...) }
	}
	stock := func() (sample, error) {
		copied := filepath.Join(dir, "copy")
		defer os.RemoveAll(copied)
		if err := os.CopyFS(copied, os.DirFS(data)); err != nil {
			return sample{}, err
		}
		return sampled(filepath.Join(b.reference, "etcd-dump-logs"), copied)
	}
	cat := command(append([]string{"cat"}, segments...)...)
	if _, err := cat(); err != nil { // fills the page cache
		return nil, err
	}
	stats, dump := command(b.kvd, "wal", "stats", data), command(b.kvd, "wal", "dump", data)
	took, err := alternate(b.runs, stats, cat, dump, stock, command(b.kvd, "wal", "dump", data, "-o", "json"), command(b.kvd, "wal", "verify", data))
	if err != nil {
		return nil, err
	}
	note := b.noteOf(fmt.Sprintf("%d entries with values of %d bytes, a log of %d MiB in the page cache", entries, largeValue, b.walSize>>20))
	theirs := measuredCommand{"wal_etcd_dump_logs", "etcd-dump-logs 3.6.8", took[3]}
	figures := append(versus(measuredCommand{"wal_stats", "kvd wal stats", took[0]}, theirs, note),
		versus(measuredCommand{"wal_dump", "kvd wal dump", took[2]}, theirs, note)...)
	figures = append(figures, versus(measuredCommand{"wal_dump_json", "kvd wal dump -o json", took[4]}, theirs, note)...)
	figures = append(figures, versus(measuredCommand{"wal_verify", "kvd wal verify", took[5]}, theirs, note)...)
	read := medianOf(took[1], seconds)
	figures = append(figures,
		figure{"wal_cat", read, "s", "cat *.wal", note},
		figure{"wal_stats_to_cat", medianOf(took[0], seconds) / read, "ratio", "kvd wal stats / cat *.wal", note})
	return append(figures, peaks(note, measuredCommand{"wal_stats", "kvd wal stats", took[0]}, measuredCommand{"wal_dump", "kvd wal dump", took[2]},
		measuredCommand{"wal_verify", "kvd wal verify", took[5]}, theirs)...), nil
}

// smallLog measures how long each entry takes where there are many.
func (b bench) smallLog(dir string) ([]figure, error) {
	var commands []measuredCommand
	var runs []func() (sample, error)
	for _, name := range []string{"stats", "dump", "verify"} {
		commands = append(commands, measuredCommand{name: "wal_small_" + name, command: "kvd wal " + name})
		runs = append(runs, func() (sample, error) { return sampled(b.kvd, "wal", name, filepath.Join(dir, "m1")) })
	}
	if _, err := runs[0](); err != nil { // fills the page cache
		return nil, err
	}
	took, err := alternate(b.runs, runs...)
	if err != nil {
		return nil, err
	}
	note := b.noteOf(fmt.Sprintf("%d entries with values of %d bytes, each under another key, in the page cache", b.entries, smallValue))
	var figures []figure
	for i := range commands {
		c := &commands[i]
		c.samples = took[i]
		figures = append(figures, figure{c.name + "_entry", medianOf(c.samples, seconds) * 1e6 / float64(b.entries), "µs", c.command, note + "; the whole run, divided by the entries"})
	}
	return append(figures, peaks(note, commands...)...), nil
}

// peaks are the figures of what memory commands needed.
func peaks(note string, commands ...measuredCommand) []figure {
	var out []figure
	for _, c := range commands {
		out = append(out, figure{c.name + "_memory", medianOf(c.samples, memory), "MiB", c.command, note + fmt.Sprintf("; the peak of RssAnon, looked at every %v", sampling)})
	}
	return out
}
