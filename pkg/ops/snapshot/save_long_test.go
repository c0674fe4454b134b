//go:build long

package snapshot_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/servertest"
)

func (s *source) command(dest string, args ...string) *exec.Cmd {
	return exec.Command(servertest.Binary(s.t), append([]string{"snapshot", "save", dest, "--endpoints", s.Endpoint(0)}, args...)...)
}

// Killed at twenty points of its way, a save leaves nothing or all under the name,
// and the next one works.
func TestSaveKilledAnywhere(t *testing.T) {
	s := startSource(t, 1)
	s.fill(40)
	for _, args := range [][]string{nil, {"--compress=zstd"}} {
		dir := t.TempDir()
		dest := filepath.Join(dir, "s.db")
		began := time.Now()
		if out, err := s.command(dest, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		whole := time.Since(began)
		left := map[string]int{}
		for i := range 20 {
			for _, f := range []string{dest, snapshot.ManifestPath(dest)} {
				_ = os.Remove(f)
			}
			cmd := s.command(dest, args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(whole * time.Duration(i+1) / 20)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			again := args
			if _, err := os.Stat(dest); err == nil {
				left["whole"]++
				restorable(t, dest)
				again = append([]string{"--force"}, args...)
			} else if _, err := os.Stat(dest + ".kvd.part"); err == nil {
				left["part"]++
			} else {
				left["nothing"]++
			}
			if out, err := s.command(dest, again...).CombinedOutput(); err != nil {
				t.Fatalf("after kill %d: %v\n%s", i, err, out)
			}
			restorable(t, dest)
			holds(t, dir, "s.db", "s.db.json")
		}
		t.Logf("%v, %v in all: left under their names: %v", args, whole, left)
		if left["part"] == 0 {
			t.Errorf("no kill came half-way: %v", left)
		}
	}
}

func restorable(t *testing.T, path string) {
	t.Helper()
	v, err := snapshot.Verify(t.Context(), path, snapshot.Options{}, progress.Discard)
	if err != nil || v.Verdict != snapshot.Restorable {
		t.Errorf("%+v, %v", v, err)
	}
}

// A kill leaves the page cache, a power cut does not: that all is on disk before
// it has its name shows in the order of the system calls.
func TestSaveOrderOfSystemCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	s := startSource(t, 1)
	s.fill(3)
	for _, args := range [][]string{nil, {"--force"}, {"--compress=zstd", "--force"}, {"--verify=hash", "--force"}} {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		dest, log := filepath.Join(dir, "s.db"), filepath.Join(t.TempDir(), "log")
		save := s.command(dest, args...)
		cmd := exec.Command(strace, append([]string{"-f", "-y", "-o", log, "-e", "trace=write,pwrite64,fsync,rename,renameat,renameat2,link,linkat", save.Path}, save.Args[1:]...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		raw, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		calls := syscalls(raw)
		part, manifest := regexp.QuoteMeta(dest+".kvd.part"), regexp.QuoteMeta(dest+".json")
		inOrder(t, args, calls,
			`^write\(\d+<`+part+`>`,
			`^fsync\(\d+<`+part+`>`,
			`^rename.*"`+part+`", .*"`+regexp.QuoteMeta(dest)+`"`,
			`^fsync\(\d+<`+regexp.QuoteMeta(dir)+`>`,
			`^rename.*"`+manifest+`\.kvd\.part", .*"`+manifest+`"`,
			`^fsync\(\d+<`+regexp.QuoteMeta(dir)+`>`)
		inOrder(t, args, calls,
			`^write\(\d+<`+manifest+`\.kvd\.part>`,
			`^fsync\(\d+<`+manifest+`\.kvd\.part>`,
			`^rename.*"`+part+`", `)
		if t.Failed() { // what strace wrote, to tell its ways from ours
			t.Fatalf("%v:\n%s", args, raw)
		}
	}
}

// syscalls lists the calls in the order in which they ended, one line each.
func syscalls(log []byte) []string {
	var out []string
	returned := regexp.MustCompile(`\)\s+= (-?\d+)`)
	open := map[string]string{} // by thread: the beginning of a call that has not ended
	for line := range bytes.Lines(log) {
		thread, call, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		call = strings.TrimSpace(call)
		if before, ok := strings.CutSuffix(call, " <unfinished ...>"); ok {
			open[thread] = before
			continue
		}
		if _, after, ok := strings.Cut(call, " resumed>"); ok {
			call = open[thread] + after
		}
		if m := returned.FindStringSubmatch(call); m != nil && m[1] != "-1" {
			out = append(out, call)
		}
	}
	return out
}

// inOrder looks for the last call of the first kind, then after it for each of the
// others.
func inOrder(t *testing.T, what []string, calls []string, want ...string) {
	t.Helper()
	at := -1
	for i, c := range calls {
		if regexp.MustCompile(want[0]).MatchString(c) {
			at = i
		}
	}
	if at < 0 {
		t.Errorf("%v: no call %s among %d", what, want[0], len(calls))
		return
	}
	for _, w := range want[1:] {
		next := at + 1
		for next < len(calls) && !regexp.MustCompile(w).MatchString(calls[next]) {
			next++
		}
		if next == len(calls) {
			t.Errorf("%v: after %s no call %s; the last calls:\n%s", what, calls[at], w, strings.Join(calls[max(0, len(calls)-15):], "\n"))
			return
		}
		at = next
	}
}
