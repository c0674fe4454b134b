// Command defrag-compare answers one question with numbers: how many requests
// of a client fail while a cluster is defragmented by kvd, and how many while
// `etcdctl defrag --cluster` does it, on copies of the same data?
//
// It starts three stock etcd members on loopback, fills and fragments them,
// copies their folders, and for each tool starts the cluster on a fresh copy
// and puts the same load on it: puts at a fixed rate (open loop), through the
// three endpoints in turn, each with a deadline of its own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

type options struct {
	Etcd, Etcdctl, Kvd string
	Dir                string
	SizeMiB            int
	Live               float64
	Rate               int
	Deadline           time.Duration
	Rounds             int
	Balanced           bool
	JSON               bool
	KvdArgs            string
	Only               string
	Drain              bool
	Seed               uint64
}

func main() {
	var o options
	flag.StringVar(&o.Etcd, "etcd", "etcd", "stock etcd")
	flag.StringVar(&o.Etcdctl, "etcdctl", "etcdctl", "stock etcdctl")
	flag.StringVar(&o.Kvd, "kvd", "kvd", "kvd")
	flag.StringVar(&o.Dir, "dir", "", "where the members' folders go (default: a new temporary one, removed at the end)")
	flag.IntVar(&o.SizeMiB, "size", 550, "size of each member's file in MiB before the defragmentation, at least")
	flag.Float64Var(&o.Live, "live", 0.5, "share of the keys that stay")
	flag.IntVar(&o.Rate, "rate", 100, "puts per second, over all endpoints")
	flag.DurationVar(&o.Deadline, "deadline", time.Second, "deadline of each put")
	flag.IntVar(&o.Rounds, "rounds", 1, "how often each tool is measured; the tools take turns")
	flag.BoolVar(&o.Balanced, "balanced", false, "one client that knows all three endpoints, instead of one client for each")
	flag.BoolVar(&o.JSON, "json", false, "print the result as JSON")
	flag.StringVar(&o.KvdArgs, "kvd-args", "", "more arguments for kvd defrag, separated by spaces")
	flag.StringVar(&o.Only, "only", "", "measure only this tool: etcdctl or kvd")
	flag.BoolVar(&o.Drain, "drain", false, "also measure kvd with hooks that take each member out of the client's reach (implies -balanced)")
	hook := flag.String("order", "", "as a hook of kvd defrag: send this order for the member in KVD_MEMBER_NAME, as URL ORDER")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the data")
	flag.Parse()
	o.Balanced = o.Balanced || o.Drain
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	var err error
	if *hook != "" {
		err = order(ctx, fmt.Sprintf("%s/%s/%s", *hook, os.Getenv("KVD_MEMBER_NAME"), flag.Arg(0)))
	} else {
		err = run(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "defrag-compare:", err)
		os.Exit(1)
	}
}

// summary is what all rounds came to.
type summary struct {
	Options options            `json:"options"`
	Data    dataset            `json:"data"`
	Rounds  []result           `json:"rounds"`
	Failed  map[string]int     `json:"failed"`
	Ratio   map[string]float64 `json:"failed_over_failed_of_etcdctl"`
}

func run(ctx context.Context, o options) error {
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "defrag-compare-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.Dir = dir
	}
	logf("filling three members to %d MiB, %.0f %% of the keys stay", o.SizeMiB, o.Live*100)
	data, err := prepare(ctx, o)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	logf("each file: %d MiB, in use %d MiB; %d keys written", data.SizeBytes>>20, data.InUseBytes>>20, data.Keys)
	s := summary{Options: o, Data: data, Failed: map[string]int{}, Ratio: map[string]float64{}}
	for round := range o.Rounds {
		tools := []string{"etcdctl", "kvd"}
		if o.Drain {
			tools = append(tools, "kvd+drain")
		}
		if round%2 == 1 {
			slices.Reverse(tools)
		}
		for _, tool := range tools {
			if o.Only != "" && o.Only != tool {
				continue
			}
			r, err := measure(ctx, o, tool)
			if err != nil {
				return fmt.Errorf("%s: %w", tool, err)
			}
			logf("%s", r)
			s.Rounds = append(s.Rounds, r)
			s.Failed[tool] += r.Failed
		}
	}
	for tool, n := range s.Failed {
		if base := s.Failed["etcdctl"]; base > 0 && tool != "etcdctl" {
			s.Ratio[tool] = float64(n) / float64(base)
		}
	}
	return s.print(o.JSON)
}

func (s summary) print(asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	}
	fmt.Printf("data: %d MiB per member, %d MiB in use\n", s.Data.SizeBytes>>20, s.Data.InUseBytes>>20)
	for _, r := range s.Rounds {
		fmt.Println(r)
	}
	fmt.Printf("failed requests: etcdctl %d\n", s.Failed["etcdctl"])
	for _, tool := range slices.Sorted(maps.Keys(s.Ratio)) {
		fmt.Printf("failed requests: %s %d, ratio to etcdctl %.2f\n", tool, s.Failed[tool], s.Ratio[tool])
	}
	return nil
}

func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
}

// dataset says what the members hold before the tools are let loose.
type dataset struct {
	Keys       int   `json:"keys"`
	SizeBytes  int64 `json:"size_bytes"`
	InUseBytes int64 `json:"in_use_bytes"`
}

// prepare fills a cluster, fragments it, stops it and leaves its folders under
// o.Dir/origin.
func prepare(ctx context.Context, o options) (d dataset, err error) {
	origin := filepath.Join(o.Dir, "origin")
	if b, err := os.ReadFile(filepath.Join(origin, "dataset.json")); err == nil {
		logf("taking the data that is in %s already", origin)
		return d, json.Unmarshal(b, &d)
	}
	c, err := startCluster(ctx, o.Etcd, origin)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if d, err = fill(ctx, c, o); err != nil {
		return d, err
	}
	b, err := json.Marshal(d)
	if err != nil {
		return d, err
	}
	return d, os.WriteFile(filepath.Join(origin, "dataset.json"), b, 0o644)
}
