package diagnose

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/metrics"
)

// Where Linux tells of processes, memory and control groups.
const (
	procFS   = "/proc"
	cgroupFS = "/sys/fs/cgroup"
)

// hosts looks at the memory of the members that run on this very machine. That an
// address is one of ours proves nothing, it may be forwarded; that a process here
// began in the same hundredth of a second as the member says of itself does.
func (c *collector) hosts() {
	var elsewhere []cluster.Member
	began := startsOf(procFS)
	for _, m := range c.in.Now.View.Answered() {
		s := c.in.Now.Metrics[m.ID]
		if s == nil {
			continue // its metrics are missing with the reason
		}
		at, _ := s.Value(metrics.ProcessStart, nil)
		rss, _ := s.Value(metrics.ResidentMemory, nil)
		pid := sameProcess(procFS, began, at, rss)
		h := Host{Of: name(m), Runs: true, File: m.Status.DBSize, Source: "/proc and control groups of process " + strconv.Itoa(pid)}
		if pid == 0 || h.readMemory(procFS) != nil {
			elsewhere = append(elsewhere, m)
			continue
		}
		h.readLimits(procFS, cgroupFS, pid)
		c.in.Hosts = append(c.in.Hosts, h)
	}
	if len(elsewhere) > 0 {
		c.in.Missing = append(c.in.Missing, Missing{Need: NeedHost, Subject: names(elsewhere), ByChoice: true,
			Why: "no process of this machine is it, and a member does not tell how much memory its machine has", Hint: "run kvd diagnose where the member runs"})
	}
}

// hostOfDir looks at the memory of the machine that a directory is on.
func (in *Input) hostOfDir(d *Dir, db string) {
	info, err := os.Stat(db)
	if err != nil {
		return
	}
	h := Host{Of: d.Path, Runs: d.Holder != "", File: info.Size(), Source: procFS + "/meminfo"}
	if err := h.readMemory(procFS); err != nil {
		in.Missing = append(in.Missing, Missing{Need: NeedHost, Subject: d.Path, ByChoice: true, Why: "this system does not tell how much memory it has: " + err.Error()})
		return
	}
	in.Hosts = append(in.Hosts, h)
}

// tick is the unit of process times: a hundredth of a second on every Linux that Go
// runs on (USER_HZ).
const tick = 100.0

// startsOf lists when the processes of this machine began, in seconds since 1970 and
// as exactly as etcd's metrics say it (prometheus/procfs: boot time and field 22 of
// proc(5)'s stat). Nothing where that cannot be read.
func startsOf(proc string) map[int]float64 {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	boot, ok := number(stat, "btime")
	if err != nil || !ok {
		return nil
	}
	out := map[int]float64{}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(proc, e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:])) // behind the name: field 3 on
		if len(f) < 20 {
			continue
		}
		if n, err := strconv.ParseFloat(f[19], 64); err == nil {
			out[pid] = float64(boot) + n/tick
		}
	}
	return out
}

// sameProcess finds the process that began at a time; of several the one whose
// resident memory is the nearest. 0 where there is none.
func sameProcess(proc string, began map[int]float64, at, rss float64) int {
	found, off := 0, math.Inf(1)
	for pid, t := range began {
		if math.Abs(t-at) > 0.5/tick {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "statm"))
		f := strings.Fields(string(raw))
		if err != nil || len(f) < 2 {
			continue
		}
		pages, err := strconv.ParseFloat(f[1], 64)
		if d := math.Abs(pages*float64(os.Getpagesize()) - rss); err == nil && d < off {
			found, off = pid, d
		}
	}
	return found
}
