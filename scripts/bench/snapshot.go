package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// snapshots measures what kvd does with snapshots beside what etcd's own programs
// do, on a database of the size that was asked for.
func snapshots(b bench) ([]figure, error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "kvd-bench-snapshot-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := startServer(ctx, b.kvd, dir)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.fill(ctx, b.size); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "snapshot.db")
	if err := s.save(ctx, file); err != nil {
		return nil, err
	}
	var all []figure
	for _, measure := range []func() ([]figure, error){
		func() ([]figure, error) { return b.saving(s, dir) },
		func() ([]figure, error) { return b.reading(file) },
		func() ([]figure, error) { return b.restoring(dir, file) },
	} {
		figures, err := measure()
		if err != nil {
			return nil, err
		}
		all = append(all, figures...)
	}
	return all, nil
}

// save takes the snapshot that is read, with neither program.
func (s *server) save(ctx context.Context, path string) error {
	stream, err := s.client.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, stream); err != nil {
		return err
	}
	return out.Sync()
}

// reading compares the commands that read a file: in the page cache, where the
// runs before have left it.
func (b bench) reading(file string) ([]figure, error) {
	etcdutl := filepath.Join(b.reference, "etcdutl")
	command := func(args ...string) func() (sample, error) {
		return func() (sample, error) { return sampled(args...) }
	}
	status := command(b.kvd, "snapshot", "status", file, "--progress", "none")
	verify := command(b.kvd, "snapshot", "verify", file, "--progress", "none")
	stock := command(etcdutl, "snapshot", "status", file)
	if _, err := stock(); err != nil { // fills the page cache
		return nil, err
	}
	took, err := alternate(b.runs, status, stock, verify)
	if err != nil {
		return nil, err
	}
	note := b.note("the file in the page cache")
	theirs := measuredCommand{"snapshot_status_etcdutl", "etcdutl snapshot status", took[1]}
	figures := append(versus(measuredCommand{"snapshot_status", "kvd snapshot status", took[0]}, theirs, note),
		versus(measuredCommand{"snapshot_verify", "kvd snapshot verify", took[2]}, theirs, note)...)
	ours, stockPeak := medianOf(took[0], memory), medianOf(took[1], memory)
	note += fmt.Sprintf("; the peak of RssAnon, looked at every %v", sampling)
	return append(figures,
		figure{"snapshot_status_memory", ours, "MiB", "kvd snapshot status", note},
		figure{"snapshot_status_memory_etcdutl", stockPeak, "MiB", theirs.command, note},
		figure{"snapshot_status_memory_ratio", ours / stockPeak, "ratio", "kvd snapshot status / " + theirs.command, note}), nil
}

// note is noteOf for the database that snapshots are of.
func (b bench) note(more string) string { return b.noteOf(fmt.Sprintf("%d MiB; %s", b.size>>20, more)) }

// noteOf says how a figure came about, with how busy the machine was: a load far
// above the number of its cores makes a ratio of times worth little.
func (b bench) noteOf(what string) string {
	load := "unknown"
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ = strings.Cut(string(raw), " ")
	}
	return fmt.Sprintf("median of %d runs in turn, %s; load of the machine %s", b.runs, what, load)
}
