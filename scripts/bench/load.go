package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// pair is two variants of a load, and the figure of kvd's comparison that shows
// what the one costs more than the other.
type pair struct {
	name   string
	figure string
	args   []string
}

// pairs are what the documents say of remedies. Bytes and memory do not depend on
// how busy the machine is; latencies do, so none is here.
func pairs() []pair {
	// Both variants of heartbeats are slow enough for a busy machine to keep up with:
	// what is left out would be missing from one side only.
	heartbeats := func(images string) []string {
		return []string{"k8s-heartbeats", "--nodes=100", "--time-scale=5", "--images=" + images, "--ab", "mode=lease", "mode=node-status"}
	}
	endpoints := func(pods string) []string {
		return []string{"k8s-endpoints", "--nodes=0", "--pods=" + pods, "--ab", "mode=slices", "mode=endpoints"}
	}
	list := func(how string) []string {
		return []string{"k8s-list", "--objects=10000", "--period=3s", "--ab", how, "page-size=0"}
	}
	return []pair{
		{"load_heartbeats_status_to_lease_50_images", "written by the load", heartbeats("50")},
		{"load_heartbeats_status_to_lease_10_images", "written by the load", heartbeats("10")},
		{"load_endpoints_to_slices_1000_pods", "each write of the load", endpoints("1000")},
		{"load_endpoints_to_slices_100_pods", "each write of the load", endpoints("100")},
		{"load_list_memory_whole_to_stream", "memory of the largest member", list("stream")},
		{"load_list_memory_whole_to_pages_of_500", "memory of the largest member", list("page-size=500")},
	}
}

const loadRepeats = 3

// loads runs each pair in turns on throwaway clusters, and then the generator beside
// etcd's own.
func loads(b bench) ([]figure, error) {
	var out []figure
	for _, p := range pairs() {
		if !strings.HasPrefix(p.name, b.figures) {
			continue
		}
		args := append([]string{"loadgen"}, p.args...)
		shown := "kvd " + strings.Join(args, " ")
		args = append(args, fmt.Sprintf("--repeats=%d", loadRepeats), "--duration=20s", "--warmup=2s", "--max-lag=1m", "--progress=none", "-o", "json")
		raw, err := exec.Command(b.kvd, args...).Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 9 {
			err = nil // no figure differs, which is a result too
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", shown, err, stderrOf(exit))
		}
		var c struct {
			Figures []struct {
				Name  string                              `json:"name"`
				Ratio *struct{ Ratio, Low, High float64 } `json:"b_over_a"`
			} `json:"figures"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", shown, err)
		}
		for _, f := range c.Figures {
			if f.Name == p.figure && f.Ratio != nil {
				note := fmt.Sprintf("%s, second variant over first: %.3g to %.3g (95 %%), %d runs of each", p.figure, f.Ratio.Low, f.Ratio.High, loadRepeats)
				out = append(out, figure{p.name, f.Ratio.Ratio, "ratio", shown, note})
			}
		}
	}
	if !strings.HasPrefix(generatorFigure, b.figures) {
		return out, nil
	}
	cost, err := b.generator()
	return append(out, cost...), err
}

func stderrOf(e *exec.ExitError) []byte {
	if e == nil {
		return nil
	}
	return e.Stderr
}
