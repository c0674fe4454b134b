package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
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
	saved, err := b.saving(s, dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "snapshot.db")
	if err := s.save(ctx, file); err != nil {
		return nil, err
	}
	read, err := b.reading(file)
	return append(saved, read...), err
}

// saving compares how long it takes until a snapshot is on the disk: beside
// etcdctl, which checks nothing, with the hash alone, and with all of it checked.
func (b bench) saving(s *server, dir string) ([]figure, error) {
	file := filepath.Join(dir, "saved.db")
	command := func(args ...string) func() (sample, error) {
		return func() (sample, error) {
			for _, f := range []string{file, file + ".json"} {
				if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
					return sample{}, err
				}
			}
			syscall.Sync() // what the run before has left to be written
			return sampled(append(args, "--endpoints", s.endpoint)...)
		}
	}
	took, err := alternate(b.runs,
		command(filepath.Join(b.reference, "etcdctl"), "snapshot", "save", file),
		command(b.kvd, "snapshot", "save", file, "--verify=hash", "--progress=none"),
		command(b.kvd, "snapshot", "save", file, "--progress=none"))
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("median of %d runs in turn, a database of %d MiB from a member on the same machine", b.runs, info.Size()>>20)
	stock, hash, full := medianOf(took[0], seconds), medianOf(took[1], seconds), medianOf(took[2], seconds)
	const theirs, unverified, verified = "etcdctl snapshot save", "kvd snapshot save --verify=hash", "kvd snapshot save"
	return []figure{
		{"snapshot_save_etcdctl", stock, "s", theirs, note},
		{"snapshot_save_hash", hash, "s", unverified, note},
		{"snapshot_save_hash_to_etcdctl", hash / stock, "ratio", unverified + " / " + theirs, note},
		{"snapshot_save", full, "s", verified, note},
		{"snapshot_save_to_etcdctl", full / stock, "ratio", verified + " / " + theirs, note},
	}, os.Remove(file)
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
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("median of %d runs in turn, a snapshot of %d MiB in the page cache", b.runs, info.Size()>>20)
	statusTime, stockTime, verifyTime := medianOf(took[0], seconds), medianOf(took[1], seconds), medianOf(took[2], seconds)
	statusMemory, stockMemory := medianOf(took[0], memory), medianOf(took[1], memory)
	const ours, theirs, verifies = "kvd snapshot status", "etcdutl snapshot status", "kvd snapshot verify"
	peak := note + fmt.Sprintf("; the peak of RssAnon, looked at every %v", sampling)
	return []figure{
		{"snapshot_status", statusTime, "s", ours, note},
		{"snapshot_status_etcdutl", stockTime, "s", theirs, note},
		{"snapshot_status_to_etcdutl", statusTime / stockTime, "ratio", ours + " / " + theirs, note},
		{"snapshot_status_memory", statusMemory, "MiB", ours, peak},
		{"snapshot_status_memory_etcdutl", stockMemory, "MiB", theirs, peak},
		{"snapshot_status_memory_to_etcdutl", statusMemory / stockMemory, "ratio", ours + " / " + theirs, peak},
		{"snapshot_verify", verifyTime, "s", verifies, note},
		{"snapshot_verify_to_etcdutl_status", verifyTime / stockTime, "ratio", verifies + " / " + theirs, note},
	}, nil
}
