// Command bench measures what kvd's documents state and writes it to
// docs/measured.json: each figure with its unit, the command that gave it, the
// machine and the date. `make bench` runs it.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// measured is docs/measured.json.
type measured struct {
	Date    string  `json:"date"`
	Machine machine `json:"machine"`
	Version string  `json:"version"`
	Figures []dated `json:"figures"`
}

type machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
}

// figure is one measurement.
type figure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Command string  `json:"command"`
	Note    string  `json:"note,omitempty"`
}

// dated is a figure in the file, with the day and the version that it is of where
// those are not the file's: see -update.
type dated struct {
	figure
	Date    string `json:"date,omitempty"`
	Version string `json:"version,omitempty"`
}

const starts = 20

// bench is what the measurements work with.
type bench struct {
	kvd       string // the binary
	etcd      string // a stock server to compare with, empty for none
	reference string // folder with stock etcdctl, etcdutl, etcd-dump-logs, etcd-dump-db and benchmark
	size      int64  // bytes of the database that snapshots are of
	walSize   int64  // bytes of the log of large values
	entries   int64  // of the log of small ones
	runs      int    // how often each command on them is run
	figures   string // of the group load, those alone whose names begin with this
	keep      string // folder where the databases of the group "keys" stay, empty for none
}

// groups are the measurements in their order.
var groups = []struct {
	name    string
	measure func(bench) ([]figure, error)
}{
	{"binary", binarySize},
	{"start", startTimes},
	{"drill", drill},
	{"snapshot", snapshots},
	{"wal", wals},
	{"load", loads},
	{"keys", keysGroup},
}

func main() {
	root := flag.String("root", "../..", "the repository")
	only := flag.String("only", "", "run one group, and print its figures without writing them")
	update := flag.Bool("update", false, "with -only: put its figures into docs/measured.json, and leave the others there as they are")
	figures := flag.String("figures", "", "with -only load: run those alone whose names begin with this")
	size := flag.Int64("size", 1024, "MiB of the database that snapshots are of")
	walSize := flag.Int64("wal", 300, "MiB of the log of large values")
	b := bench{}
	flag.StringVar(&b.etcd, "etcd", os.Getenv("ETCD"), "a stock etcd binary to measure beside kvd (or $ETCD)")
	flag.StringVar(&b.reference, "reference", "", "folder with stock etcdctl, etcdutl, etcd-dump-logs, etcd-dump-db and benchmark; without it they are built from scripts/reference, scripts/dumplogs and scripts/benchmark")
	flag.IntVar(&b.runs, "runs", 7, "how often each command on a snapshot or a log is run")
	flag.Int64Var(&b.entries, "entries", 1_000_000, "entries of the log of small values")
	flag.StringVar(&b.keep, "keep", "", "folder where the databases of the group keys are kept, and looked for")
	flag.Parse()
	b.size, b.walSize = *size<<20, *walSize<<20
	b.figures = *figures
	if err := run(b, *root, *only, *update); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(b bench, root, only string, update bool) error {
	var err error
	if b.kvd, err = filepath.Abs(filepath.Join(root, "bin", "kvd")); err != nil {
		return err
	}
	m := measured{
		Date:    time.Now().UTC().Format(time.DateOnly),
		Machine: machine{CPU: cpu(), Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()},
	}
	if m.Version, err = versionOf(b.kvd); err != nil {
		return err
	}
	if b.reference == "" {
		b.reference, err = os.MkdirTemp("", "kvd-bench-reference-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(b.reference)
		for _, module := range []string{"reference", "dumplogs", "benchmark"} {
			build := exec.Command("go", "-C", filepath.Join(root, "scripts", module), "build", "-trimpath", "-o", b.reference+"/", "tool")
			build.Env = append(os.Environ(), "CGO_ENABLED=0") // as their releases are, and as kvd is
			if out, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("building scripts/%s: %w\n%s", module, err, out)
			}
		}
	}
	named := map[string]bool{}
	for _, g := range groups {
		if only != "" && only != g.name {
			continue
		}
		f, err := g.measure(b)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		for _, x := range f {
			if named[x.Name] { // what two figures are compared with
				continue
			}
			named[x.Name] = true
			fmt.Printf("%-32s %10.3f %-8s %s\n", x.Name, x.Value, x.Unit, x.Command)
			m.Figures = append(m.Figures, dated{figure: x})
		}
	}
	path := filepath.Join(root, "docs", "measured.json")
	switch {
	case only == "":
		return m.write(path)
	case update:
		return m.writeInto(path)
	}
	return nil
}

func versionOf(kvd string) (string, error) {
	out, err := exec.Command(kvd, "version", "-o", "json").Output()
	if err != nil {
		return "", fmt.Errorf("kvd version (run `make build` first): %w", err)
	}
	var v struct {
		Version string `json:"version"`
	}
	return v.Version, json.Unmarshal(out, &v)
}

func binarySize(b bench) ([]figure, error) {
	info, err := os.Stat(b.kvd)
	if err != nil {
		return nil, err
	}
	return []figure{{"binary_size", float64(info.Size()) / (1 << 20), "MiB", "make build", ""}}, nil
}

// startTimes is how long the program takes to do nothing. The two alternate, so
// that whatever else the machine does hits both.
func startTimes(b bench) ([]figure, error) {
	commands := [][]string{{b.kvd, "version"}}
	if b.etcd != "" {
		commands = append(commands, []string{b.etcd, "--version"})
	}
	took := make([][]float64, len(commands))
	for range starts {
		for i, c := range commands {
			began := time.Now()
			if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("%v: %w\n%s", c, err, out)
			}
			took[i] = append(took[i], float64(time.Since(began).Microseconds())/1000)
		}
	}
	note := fmt.Sprintf("median of %d starts", starts)
	out := []figure{{"start_kvd", median(took[0]), "ms", "kvd version", note}}
	if b.etcd != "" {
		out = append(out, figure{"start_etcd", median(took[1]), "ms", "etcd --version", note},
			figure{"start_kvd_to_etcd", median(took[0]) / median(took[1]), "ratio", "kvd version / etcd --version", note})
	}
	return out, nil
}

// drill is how long the whole rescue takes on a throwaway cluster.
func drill(b bench) ([]figure, error) {
	cmd := exec.Command(b.kvd, "drill", "nospace", "-o", "json", "--progress", "none")
	began := time.Now()
	out, err := cmd.Output()
	took := time.Since(began).Seconds()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("kvd drill nospace: %w\n%s", err, exit.Stderr)
	}
	if err != nil {
		return nil, err
	}
	if !json.Valid(out) {
		return nil, errors.New("kvd drill nospace -o json printed something else than JSON")
	}
	return []figure{{"drill_nospace", took, "s", "kvd drill nospace", "3 members, 16 MiB quota, start to clean-up"}}, nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// cpu is the model's name, where the system tells it.
func cpu() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
