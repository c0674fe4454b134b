package diagnose

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Host is the memory of a machine on which a member runs, or would run.
type Host struct {
	Of      string // a member, or a data directory
	Runs    bool
	File    int64 // bytes of its database
	Total   int64 // bytes of the machine's memory
	Free    int64 // of them that can be had without swapping: MemAvailable
	Limit   int64 // bytes that the process' control groups allow, 0 for as much as there is
	Allowed int64 // of them that are left for pages of files, where there is a limit
	Source  string
}

// Room is how much of a file can be held in memory, in bytes.
func (h Host) Room() int64 {
	if h.Limit > 0 {
		return min(h.Free, h.Allowed)
	}
	return h.Free
}

// readMemory fills in what the kernel says of the machine: Linux' /proc/meminfo.
func (h *Host) readMemory(proc string) error {
	raw, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		return err
	}
	for name, into := range map[string]*int64{"MemTotal": &h.Total, "MemAvailable": &h.Free} {
		kib, ok := number(raw, name+":")
		if !ok {
			return fmt.Errorf("%s/meminfo has no %s", proc, name)
		}
		*into = kib << 10
	}
	return nil
}

// number finds "NAME N" at the beginning of a line.
func number(text []byte, name string) (int64, bool) {
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) > 1 && string(f[0]) == name {
			n, err := strconv.ParseInt(string(f[1]), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// controlGroup is where a version of control groups keeps what.
type controlGroup struct {
	root, limit, used string
	files             []string // of memory.stat: pages of files, which can be given back
}

func controlGroups() []controlGroup {
	return []controlGroup{
		{"", "memory.max", "memory.current", []string{"active_file", "inactive_file"}},
		{"unified", "memory.max", "memory.current", []string{"active_file", "inactive_file"}},
		{"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_active_file", "total_inactive_file"}},
	}
}

// readLimits fills in what a process' control groups allow it: the tightest of its own
// and those above it. Where there are none, or none that can be read, there is no limit.
func (h *Host) readLimits(proc, sys string, pid int) {
	raw, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(raw)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // ID:CONTROLLERS:PATH
		if len(part) != 3 {
			continue
		}
		for _, g := range controlGroups() {
			if v1 := g.root == "memory"; v1 != (part[1] == "memory") || !v1 && part[1] != "" {
				continue
			}
			for at := filepath.Clean("/" + part[2]); ; at = filepath.Dir(at) {
				h.tighten(g, filepath.Join(sys, g.root, at))
				if at == "/" {
					break
				}
			}
		}
	}
}

// tighten takes the limit of one control group into account.
func (h *Host) tighten(g controlGroup, dir string) {
	limit, ok := oneNumber(filepath.Join(dir, g.limit))
	if !ok || limit >= h.Total && h.Total > 0 { // "max", or a number beyond all memory
		return
	}
	used, ok := oneNumber(filepath.Join(dir, g.used))
	if !ok {
		return
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return
	}
	for _, name := range g.files {
		n, _ := number(stat, name)
		used -= n
	}
	if left := max(0, limit-max(0, used)); h.Limit == 0 || left < h.Allowed {
		h.Limit, h.Allowed = limit, left
	}
}

func oneNumber(path string) (int64, bool) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	return n, err == nil
}
