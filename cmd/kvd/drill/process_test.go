package drill_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/servertest"
)

// drillProcess is a `kvd drill nospace` that runs.
type drillProcess struct {
	*exec.Cmd
	dir    string
	stdout io.ReadCloser
	phases *bufio.Scanner // of its stderr
}

// startDrill starts one that writes to stdout, or to a pipe if that is nil.
func startDrill(t *testing.T, stdout io.Writer, args ...string) *drillProcess {
	t.Helper()
	p := &drillProcess{dir: filepath.Join(t.TempDir(), "the operator's folder")}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"drill", "nospace", "--quota=4MiB", "--remedy=raise-quota", "--progress=plain", "--dir=" + p.dir}, args...)
	p.Cmd = exec.Command(servertest.Binary(t), args...)
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell with job control does
	var err error
	if p.Stdout = stdout; stdout == nil {
		if p.stdout, err = p.StdoutPipe(); err != nil {
			t.Fatal(err)
		}
	}
	stderr, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() }) // an error means that it has ended
	p.phases = bufio.NewScanner(stderr)
	return p
}

// until reads stderr up to a line that contains text.
func (p *drillProcess) until(t *testing.T, text string) {
	t.Helper()
	var seen []string
	for p.phases.Scan() {
		seen = append(seen, p.phases.Text())
		if strings.Contains(p.phases.Text(), text) {
			return
		}
	}
	t.Fatalf("%q was not said, but:\n%s", text, strings.Join(seen, "\n"))
}

// end waits for the end and returns the exit code.
func (p *drillProcess) end() int {
	for p.phases.Scan() { // or it would wait for somebody who reads
	}
	_ = p.Wait() // the state says how it ended
	return p.ProcessState.ExitCode()
}

// Each way to ask for its end leaves nothing, and is in the exit code. A signal
// goes to the whole process group, as Ctrl-C does.
func TestSignals(t *testing.T) {
	for _, tc := range []struct {
		sig     syscall.Signal
		code    int
		at      string
		members string
	}{
		{syscall.SIGINT, 130, "filling", "--members=2"},
		{syscall.SIGTERM, 143, "starting", "--members=2"},
		{syscall.SIGHUP, 130, "restarting", "--members=1"},
	} {
		t.Run(tc.sig.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(tc.sig) {
				t.Skip("ignored in whatever runs the tests, as under nohup, and so rightly in the drill")
			}
			p := startDrill(t, io.Discard, tc.members)
			p.until(t, tc.at)
			if err := syscall.Kill(-p.Process.Pid, tc.sig); err != nil {
				t.Fatal(err)
			}
			if code := p.end(); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			nothingLeft(t, p.dir)
		})
	}
}

// A kill that nobody can answer still takes the members along.
func TestKilled(t *testing.T) {
	t.Parallel()
	p := startDrill(t, io.Discard, "--members=2")
	p.until(t, "filling")
	if n := len(processesNaming(t, p.dir)); n != 2 {
		t.Errorf("%d members run", n)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.end()
	deadline := time.Now().Add(20 * time.Second)
	for len(processesNaming(t, p.dir)) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", processesNaming(t, p.dir))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Whoever reads the story may leave before its end.
func TestReaderLeaves_more(t *testing.T) {
	t.Parallel()
	p := startDrill(t, nil, "--members=1")
	if _, err := bufio.NewReader(p.stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := p.stdout.Close(); err != nil {
		t.Fatal(err)
	}
	if code := p.end(); code != 0 {
		t.Errorf("exit code %d, want 0: it was proved", code)
	}
	nothingLeft(t, p.dir)
}

// A kept cluster outlives kvd and a Ctrl-C in its terminal, can be reached as
// the report says, and is gone after the command that the report names.
func TestKeptOutlives(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := startDrill(t, &out, "--members=2", "--keep", "-o=json")
	group := p.Process.Pid
	if code := p.end(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var r drill.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Kept == nil {
		t.Fatalf("%v, kept %+v", err, r.Kept)
	}
	t.Cleanup(func() { endKept(t, r.Kept) })
	for _, pid := range r.Kept.PIDs {
		if pgid, err := syscall.Getpgid(pid); err != nil || pgid == group {
			t.Errorf("process %d is in the group of kvd, %d (%v)", pid, group, err)
		}
	}
	if len(r.Kept.PIDs) != 2 || len(processesNaming(t, p.dir)) != 2 {
		t.Errorf("processes %v, of which run %v", r.Kept.PIDs, processesNaming(t, p.dir))
	}
	status := exec.Command("sh", "-c", strings.Replace(r.Kept.Status, "kvd", servertest.Binary(t), 1)+" --exit-code")
	if text, err := status.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", status, err, text)
	}
	if view := viewOf(t, connectTo(t, r.Endpoints)); len(view.Alarms) != 0 || view.Members[0].Status.Revision < r.Proof.Revision {
		t.Errorf("the kept cluster: %+v", view)
	}
	stop := exec.Command("sh", "-c", r.Kept.Stop)
	if text, err := stop.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", stop, err, text)
	}
	if _, err := os.Stat(r.Kept.Dir); err == nil {
		t.Errorf("%s is still there after %s", r.Kept.Dir, r.Kept.Stop)
	}
}

// connectTo returns a client of a kept cluster.
func connectTo(t *testing.T, endpoints []string) *cluster.Client {
	t.Helper()
	client, err := cluster.Connect(cluster.Config{Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// viewOf is the cluster whole: it fails the test where a member does not answer.
func viewOf(t *testing.T, client *cluster.Client) cluster.View {
	t.Helper()
	view, err := client.View(t.Context())
	if err == nil {
		err = view.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return view
}
