//go:build long

package snapshot_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kvd/pkg/server/servertest"
)

// tracedRestore runs a restore under strace, which shows each call that changes
// what is on disk before it is made, and holds it up a little, so that a kill at
// the nth comes before the next.
type tracedRestore struct {
	calls []string
	code  int
}

const tracedCalls = "mkdirat,fsync,fdatasync,renameat,renameat2,unlinkat,ftruncate,copy_file_range,linkat"

// run kills the process at the nth call; 0 lets it end by itself.
func runTraced(t *testing.T, kill int, args ...string) tracedRestore {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("strace", append([]string{"-f", "-y", "-o", "/dev/fd/3", "-e", "signal=none", "-e", "trace=execve," + tracedCalls,
		"-e", "inject=" + tracedCalls + ":delay_exit=10000", servertest.Binary(t)}, args...)...)
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		t.Skipf("no strace: %v", err)
	}
	w.Close() //nolint:errcheck // the child has it
	var out tracedRestore
	pid := 0
	for lines := bufio.NewScanner(r); lines.Scan(); {
		tid, call, _ := strings.Cut(lines.Text(), " ")
		if pid == 0 {
			pid, _ = strconv.Atoi(tid)
			continue
		}
		if call = strings.TrimSpace(call); strings.HasPrefix(call, "<...") || strings.HasPrefix(call, "+++") {
			continue
		}
		out.calls = append(out.calls, call)
		if len(out.calls) == kill {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // its code says how the other one ended
	out.code = cmd.ProcessState.ExitCode()
	return out
}

// Killed at twenty places from its first to its last change on disk: nothing half
// made is under the final names, and the same command succeeds then.
func TestRestoreKilled(t *testing.T) {
	file := write(t, "s.db", realRegistry(t))
	for _, separate := range []bool{false, true} {
		t.Run(fmt.Sprintf("log elsewhere %t", separate), func(t *testing.T) {
			args := func(dir string) []string {
				a := []string{"snapshot", "restore", file, "--yes", "--bump-revision", "auto", "--data-dir", filepath.Join(dir, "data")}
				if separate {
					a = append(a, "--wal-dir", filepath.Join(dir, "wal"))
				}
				return a
			}
			whole := runTraced(t, 0, args(t.TempDir())...)
			if whole.code != 0 || len(whole.calls) < 20 {
				t.Fatalf("undisturbed: %d, %q", whole.code, whole.calls)
			}
			for i := range 20 {
				killedAt(t, 1+i*(len(whole.calls)-1)/19, args)
			}
			for i, call := range whole.calls { // and at each call that gives a name, and at the next
				if strings.HasPrefix(call, "renameat") {
					killedAt(t, i+1, args)
					killedAt(t, i+2, args)
				}
			}
		})
	}
}

func killedAt(t *testing.T, n int, args func(dir string) []string) {
	t.Helper()
	dir := t.TempDir()
	data, wal := filepath.Join(dir, "data"), filepath.Join(dir, "wal")
	killed := runTraced(t, n, args(dir)...)
	last := killed.calls[len(killed.calls)-1]
	if _, err := os.Stat(data); err == nil {
		sameContent(t, args("")[2], data, true, false) // then all of it is there
		if _, err := os.Stat(filepath.Join(data, "member", "kvd-restore.json")); err != nil {
			t.Errorf("killed at %s: %v", last, err)
		}
	}
	out, err := exec.Command(servertest.Binary(t), args(dir)...).CombinedOutput()
	if err != nil {
		t.Errorf("killed at call %d, %s; again: %v\n%s", n, last, err, out)
		return
	}
	onlyIn(t, dir, "data", "wal")
	onlyIn(t, data, "member")
	sameContent(t, args("")[2], data, true, false)
	logs := filepath.Join(data, "member", "wal")
	if strings.Contains(strings.Join(args(""), " "), "--wal-dir") {
		logs = wal
	}
	onlyIn(t, logs, "0000000000000000-0000000000000000.wal")
	if _, err := os.Stat(filepath.Join(logs, "0000000000000000-0000000000000000.wal")); err != nil {
		t.Error(err)
	}
}

// Everything is on disk before it gets its name, and the name before the command
// ends: a kill leaves the page cache, so that only the order of calls shows it.
func TestRestoreOrderOnDisk(t *testing.T) {
	file := write(t, "s.db", realRegistry(t))
	dir := t.TempDir()
	traced := runTraced(t, 0, "snapshot", "restore", file, "--yes", "--data-dir", filepath.Join(dir, "data"), "--wal-dir", filepath.Join(dir, "wal"))
	at := func(pattern string) int {
		t.Helper()
		re := regexp.MustCompile(pattern)
		for i := len(traced.calls) - 1; i >= 0; i-- {
			if re.MatchString(traced.calls[i]) {
				return i
			}
		}
		t.Fatalf("no call like %s in\n%s", pattern, strings.Join(traced.calls, "\n"))
		return 0
	}
	d := regexp.QuoteMeta(dir)
	renamedLog, renamedData := `renameat.*"`+d+`/wal"`, `renameat.*"`+d+`/data"`
	for _, pair := range [][2]string{
		{`fsync\(.*<` + d + `/\.data\.kvd-restore/kvd-restore\.json>`, renamedLog},
		{`fsync\(.*<` + d + `/\.wal\.kvd-restore/built/wal/0+-0+\.wal>`, renamedLog},
		{`fsync\(.*<` + d + `/\.wal\.kvd-restore/built/wal>`, renamedLog},
		{renamedLog, renamedData},
		{`fsync\(.*<` + d + `/\.data\.kvd-restore/built/member/snap/db>`, renamedData},
		{`fsync\(.*<` + d + `/\.data\.kvd-restore/built/member/snap>`, renamedData},
		{`fsync\(.*<` + d + `/\.data\.kvd-restore/built/member/kvd-restore\.json>`, renamedData},
		{`fsync\(.*<` + d + `/\.data\.kvd-restore/built/member>`, renamedData},
		{`fsync\(.*<` + d + `/\.data\.kvd-restore/built>`, renamedData},
		{renamedData, `fsync\(.*<` + d + `>`},
	} {
		if at(pair[0]) > at(pair[1]) {
			t.Errorf("%s comes after %s", pair[0], pair[1])
		}
	}
	for _, i := range []int{at(renamedLog), at(renamedData)} {
		if !regexp.MustCompile(`fsync\(.*<` + d + `>`).MatchString(traced.calls[i+1]) {
			t.Errorf("%s is followed by %s, not by an fsync of the folder", traced.calls[i], traced.calls[i+1])
		}
	}
}
