package ops

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Ctrl-C on kvd's terminal reaches all of its process group, and is not for a
// command that runs: that ends by itself, or with all it started where it takes too long.
func TestACommandIsASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pids")
	err := runHook(t.Context(), 2*time.Second, "--before-member",
		[]string{"sh", "-c", "sleep 60 & echo $$ $! > " + file + "; wait"}, nil)
	if err == nil || !strings.Contains(err.Error(), "not done within 2s") {
		t.Fatalf("%v", err)
	}
	var pids [2]int
	if _, err := fmt.Sscan(read(t, file), &pids[0], &pids[1]); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		for deadline := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil && processState(t, pid)[0] != "Z"; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d still runs", pid)
			}
		}
	}
	if err := runHook(t.Context(), time.Minute, "--before-member", []string{"sh", "-c", "cat /proc/$$/stat > " + file}, nil); err != nil {
		t.Fatal(err)
	}
	theirs, ours := statFields(read(t, file)), processState(t, os.Getpid())
	if theirs[3] == ours[3] {
		t.Errorf("the command runs in session %s, as the test does", ours[3])
	}
}

// processState is what the system tells of a process: its state, parent, process
// group, session and so on (proc_pid_stat(5)). One that is gone is as good as a zombie.
func processState(t *testing.T, pid int) []string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return []string{"Z"}
	}
	return statFields(string(stat))
}

// statFields are those behind the name, which may have anything in it.
func statFields(stat string) []string {
	return strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
