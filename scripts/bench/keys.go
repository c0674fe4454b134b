package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// dataset is a database that is read: so many keys, each written so often.
type dataset struct {
	name          string // in those of its figures
	keys, rounds  int
	value, perTxn int // bytes; keys in one transaction
}

// datasets are one with much history in large values, and one of many small keys.
var datasets = []dataset{
	{name: "revisions", keys: 50_000, rounds: 3, value: 7_800, perTxn: 1},
	{name: "small", keys: 1_000_000, rounds: 1, value: 32, perTxn: 1000},
}

func (d dataset) String() string {
	return fmt.Sprintf("%d keys, %d revisions, values of %d bytes", d.keys, d.keys*d.rounds, d.value)
}

// keysGroup measures what is said of what is stored, offline, beside what etcd's own
// programs take to read the same file once.
func keysGroup(b bench) ([]figure, error) {
	dir := b.keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "kvd-bench-keys-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
	}
	var all []figure
	for _, d := range datasets {
		file, err := b.dataset(d, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		for _, measure := range []func(dataset, string) ([]figure, error){b.usage, b.diff} {
			figures, err := measure(d, file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.name, err)
			}
			all = append(all, figures...)
		}
	}
	return all, nil
}

// usage compares `kvd keys usage` with two programs that read every record once:
// the one of which is not asked for what is in them, and the other one is.
func (b bench) usage(d dataset, file string) ([]figure, error) {
	command := func(args ...string) func() (sample, error) {
		return func() (sample, error) { return sampled(args...) }
	}
	ours := command(b.kvd, "keys", "usage", file, "--progress", "none")
	status := command(filepath.Join(b.reference, "etcdutl"), "snapshot", "status", file)
	if _, err := status(); err != nil { // fills the page cache
		return nil, err
	}
	took, err := alternate(b.runs, ours, status)
	if err != nil {
		return nil, err
	}
	// Which opens the file of a data directory, and for writing: a copy.
	copied := file + ".dump"
	defer os.RemoveAll(copied)
	if out, err := exec.Command("sh", "-c", `mkdir -p "$1/member/snap" && cp "$0" "$1/member/snap/db"`, file, copied).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cp: %w\n%s", err, out)
	}
	beside, err := alternate(min(b.runs, 3), ours, command(filepath.Join(b.reference, "etcd-dump-db"), "iterate-bucket", "--decode", copied, "key"))
	if err != nil {
		return nil, err
	}
	name := "keys_usage_" + d.name
	note := b.noteOf(d.String() + "; the file in the page cache")
	usage := measuredCommand{name, "kvd keys usage FILE", took[0]}
	figures := versus(usage, measuredCommand{name + "_etcdutl", "etcdutl snapshot status", took[1]}, note)
	theirs := medianOf(beside[1], seconds)
	return append(figures,
		figure{name + "_dumpdb", theirs, "s", "etcd-dump-db iterate-bucket --decode FILE key", note},
		figure{name + "_dumpdb_ratio", medianOf(beside[0], seconds) / theirs, "ratio", usage.command + " / etcd-dump-db", note},
		figure{name + "_memory", medianOf(took[0], memory), "MiB", usage.command, note + fmt.Sprintf("; the peak of RssAnon, looked at every %v", sampling)}), nil
}

// later is the snapshot that was taken of the same server once a hundredth of the keys
// had been written again.
func later(file string) string { return file + ".later" }

// diff compares the comparison of two snapshots with the usage of one.
func (b bench) diff(d dataset, file string) ([]figure, error) {
	differ := []string{b.kvd, "diff", file, later(file), "--stat", "--progress", "none"}
	took, err := alternate(b.runs, func() (sample, error) { return sampledWith(exitDiffer, differ...) },
		func() (sample, error) { return sampled(b.kvd, "keys", "usage", file, "--progress", "none") })
	if err != nil {
		return nil, err
	}
	name := "diff_" + d.name
	note := b.noteOf(d.String() + ", and the same with a hundredth of the keys written again; the files in the page cache")
	figures := versus(measuredCommand{name, "kvd diff A B --stat", took[0]}, measuredCommand{"keys_usage_" + d.name, "kvd keys usage FILE", took[1]}, note)
	return append(figures, figure{name + "_memory", medianOf(took[0], memory), "MiB", "kvd diff A B --stat",
		note + fmt.Sprintf("; the peak of RssAnon, looked at every %v", sampling)}), nil
}

// dataset makes the database and its later snapshot, unless they are there.
func (b bench) dataset(d dataset, dir string) (string, error) {
	ctx := context.Background()
	file := filepath.Join(dir, d.name+".db")
	if _, err := os.Stat(later(file)); err == nil {
		return file, nil
	}
	tmp, err := os.MkdirTemp(dir, "server-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	s, err := startServer(ctx, b.kvd, tmp)
	if err != nil {
		return "", err
	}
	defer s.stop()
	if err := s.write(ctx, d); err != nil {
		return "", err
	}
	if err := s.save(ctx, file); err != nil {
		return "", err
	}
	again := d
	again.keys, again.rounds = d.keys/100, 1
	if err := s.write(ctx, again); err != nil {
		return "", err
	}
	return file, s.save(ctx, later(file))
}

// write puts every key once in each round, in an order of its own.
func (s *server) write(ctx context.Context, d dataset) error {
	const workers = 4
	for round := range d.rounds {
		order := rand.New(rand.NewPCG(uint64(round), 7)).Perm(d.keys)
		var wg sync.WaitGroup
		errs := make([]error, workers)
		for w := range workers {
			share := order[w*len(order)/workers : (w+1)*len(order)/workers]
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(w)))
				for at := 0; at < len(share) && errs[w] == nil; at += d.perTxn {
					var ops []clientv3.Op
					for _, i := range share[at:min(at+d.perTxn, len(share))] {
						ops = append(ops, clientv3.OpPut(keyName(i), randomBytes(rng, d.value)))
					}
					_, errs[w] = s.client.Txn(ctx).Then(ops...).Commit()
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// keyName spreads keys over some resources and namespaces as a cluster does.
func keyName(i int) string {
	resources := [...]string{"pods", "events", "configmaps", "secrets", "endpointslices"}
	return fmt.Sprintf("/registry/%s/namespace-%02d/object-%07d", resources[i%len(resources)], i/len(resources)%40, i)
}
