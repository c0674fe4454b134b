package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// What both generators send: the rate and size of the heartbeats of ten thousand
// nodes, over the connections of three API servers.
const (
	generatorFigure  = "load_generator_cpu_to_benchmark"
	generatorRate    = 1000
	generatorSeconds = 10
)

// generator compares the processor time of a transaction with that of etcd's own
// generator, at the same rate, size of value and number of connections. What both
// need to begin is taken off, by a run of a second.
func (b bench) generator() ([]figure, error) {
	dir, err := os.MkdirTemp("", "kvd-bench-generator-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := startServer(context.Background(), b.kvd, dir)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	ours := func(seconds int) func() (sample, error) {
		return func() (sample, error) {
			return sampled(b.kvd, "loadgen", "k8s-heartbeats", "--endpoints", s.endpoint, fmt.Sprintf("--nodes=%d", generatorRate*51/50), "--period=1s",
				"--status-period=1000h", "--images=0", "--warmup=0s", fmt.Sprintf("--duration=%ds", seconds), "--max-lag=1h", "--compaction=0", "--progress=none")
		}
	}
	theirs := func(seconds int) func() (sample, error) {
		return func() (sample, error) {
			return sampled(filepath.Join(b.reference, "benchmark"), "txn-put", "--endpoints", s.endpoint, fmt.Sprintf("--rate=%d", generatorRate),
				fmt.Sprintf("--total=%d", generatorRate*seconds), "--val-size=570", "--key-size=80", fmt.Sprintf("--key-space-size=%d", generatorRate), "--conns=3", "--clients=100")
		}
	}
	if _, err := ours(1)(); err != nil { // makes the nodes
		return nil, err
	}
	took, err := alternate(loadRepeats, ours(1), theirs(1), ours(1+generatorSeconds), theirs(1+generatorSeconds))
	if err != nil {
		return nil, err
	}
	each := func(short, long []sample) float64 {
		return 1e6 * (medianOf(long, cpuTime) - medianOf(short, cpuTime)) / (generatorSeconds * generatorRate)
	}
	note := fmt.Sprintf("user and system time, %d transactions a second of 570 bytes over 3 connections, median of %d runs less that of as many of one second", generatorRate, loadRepeats)
	kvd, etcd := each(took[0], took[2]), each(took[1], took[3])
	return []figure{
		{Name: "load_generator_cpu", Value: kvd, Unit: "µs", Command: "kvd loadgen k8s-heartbeats", Note: note},
		{Name: "load_generator_cpu_benchmark", Value: etcd, Unit: "µs", Command: "etcd's benchmark txn-put", Note: note},
		{Name: generatorFigure, Value: kvd / etcd, Unit: "ratio", Command: "kvd loadgen k8s-heartbeats / benchmark txn-put", Note: note},
	}, nil
}
