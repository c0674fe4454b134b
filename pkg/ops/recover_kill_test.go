package ops_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// A rescue that is killed anywhere is finished by the next one. Here the places
// that matter most; make test-long kills it at each begin and end of a step, on
// three members.
func TestRecoverKilled(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 16 * mib, keyFmt: "/registry/leases/kube-node-lease/n%d"}.build(t)
	for _, at := range []struct{ action, state string }{{"compact to", "done"}, {"defragment", "started"}, {"disarm", "started"}} {
		seen := p.killedAndFinished(t, func(e progress.Event) bool {
			return strings.HasPrefix(e.Phase, at.action) && e.State == at.state
		}, at.action+" "+at.state)
		if !seen {
			t.Errorf("no step %q was %s", at.action, at.state)
		}
	}
}

// killedAndFinished fills the cluster, kills a rescue at the first event that
// matches, and lets another one finish. It returns false if no event matched.
// Close to its end the rescue may be done before the signal arrives: then there
// is nothing to finish, and the cluster is as it should be all the same.
func (p *place) killedAndFinished(t *testing.T, match func(progress.Event) bool, at string) bool {
	t.Helper()
	p.fill(t, 50, 16<<10)
	if !p.view(t).HasAlarm(cluster.AlarmNoSpace) {
		t.Fatalf("%s: no alarm: the case was not built", at)
	}
	cmd, stderr := p.recoverProcess(t)
	killed := false
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		var e progress.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Op != "alarm recover" || !match(e) {
			continue
		}
		killed = true
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		break
	}
	_, _ = io.Copy(io.Discard, stderr)
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); killed && (!ok || status.Signal() != syscall.SIGKILL) {
		t.Logf("%s: ended with %v before it could be killed", at, err)
		if err != nil {
			t.Errorf("%s: and failed", at)
		}
	} else if killed {
		again, stderr := p.recoverProcess(t)
		said, _ := io.ReadAll(stderr)
		if err := again.Wait(); err != nil {
			t.Errorf("killed at %q, the second run: %v\n%s", at, err, said)
		}
	}
	p.writable(t)
	return killed
}

// recoverProcess starts a real kvd alarm recover.
func (p *place) recoverProcess(t *testing.T) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), servertest.Binary(t), "alarm", "recover", "--yes", "--progress", "json",
		"--endpoints", strings.Join(p.Endpoints(), ","))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stderr
}
