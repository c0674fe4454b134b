//go:build long

package ops_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

const mebi64 = 64 * mib

// No acknowledged write is lost, whoever is replaced, and wherever the new one is.
func TestMemberReplaceUnderLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		world
		break_    func(d *dance, t *testing.T, i int) // what has become of the old one
		leader    bool                                // it leads
		elsewhere bool                                // the new one has a peer URL of its own
	}{
		"mTLS and auth, dead, same place":          {world: world{members: 3, secure: true}, break_: (*dance).dies},
		"mTLS and auth, leader, elsewhere":         {world: world{members: 3, secure: true}, leader: true, elsewhere: true},
		"five members, leader, same place":         {world: world{members: 5}, leader: true},
		"auth without TLS, log went backwards":     {world: world{members: 3, auth: true}, break_: (*dance).goesBackwards},
		"five members, dead, elsewhere, auth":      {world: world{members: 5, auth: true}, break_: (*dance).dies, elsewhere: true},
		"mTLS and auth, alive follower, elsewhere": {world: world{members: 3, secure: true}, elsewhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.quota, tc.keyFmt = mebi64, "k%d"
			d := newDance(t, tc.build(t))
			from := d.Leader(t)
			if !tc.leader {
				from = (from + 1) % tc.members
			}
			if tc.break_ != nil {
				tc.break_(d, t, from)
			}
			to := from
			if tc.elsewhere {
				var err error
				if to, err = d.Reserve(); err != nil {
					t.Fatal(err)
				}
			}
			d.aim(to)
			old, err := d.view(t).FindMember(d.Name(from))
			if err != nil {
				t.Fatal(err)
			}
			before := d.load.n.Load()
			code, out, said := d.run(t, d.replaceArgs(d.Name(from), from, to)...)
			if code != 0 {
				t.Fatalf("exit %d\n%s\n%s", code, out, said)
			}
			if from != to {
				d.Forget(from)
			}
			if n := d.load.n.Load() - before; n < 10 {
				t.Errorf("only %d writes passed meanwhile", n)
			}
			d.asItShould(t, tc.members, to, old.ID)
			d.nothingLost(t, to)
		})
	}
}

func (d *dance) dies(_ *testing.T, i int) { d.Kill(i) }

// goesBackwards gives a member an old copy of its data dir (C61) and has it started
// again and again, as systemd would, until it is replaced.
func (d *dance) goesBackwards(t *testing.T, i int) {
	t.Helper()
	ctx := servertest.Context(t, time.Minute)
	if err := d.StopMember(ctx, i); err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir() + "/copy"
	if out, err := exec.Command("cp", "-a", d.DataDir(i), copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := d.StartMember(ctx, i); err != nil {
		t.Fatal(err)
	}
	for n := d.load.n.Load(); d.load.n.Load() < n+200; {
		time.Sleep(20 * time.Millisecond)
	}
	if err := d.StopMember(ctx, i); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(d.DataDir(i)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(copied, d.DataDir(i)); err != nil {
		t.Fatal(err)
	}
	if err := d.Launch(i); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Exited(i):
	case <-ctx.Done():
		t.Fatal("it did not crash: the case was not built")
	}
	if tail := d.LogTail(i, 60); !strings.Contains(tail, "tocommit") {
		t.Fatalf("crashed for another reason:\n%s", tail)
	}
	// It crashes and comes back until the cluster has it replaced.
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(300 * time.Millisecond):
			}
			if raw, _ := os.ReadFile(d.requests); len(raw) > 0 {
				return
			}
			if !d.Running(i) {
				_ = d.Launch(i)
			}
		}
	})
	t.Cleanup(func() { close(done); wg.Wait() })
}

// Killed at every begin and every end of a step, the same call finishes the job, in
// the same place and in another one.
func TestMemberReplaceKilledAtEveryEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		world
		elsewhere bool
	}{
		"mTLS and auth, same place": {world: world{members: 3, secure: true}},
		"plain, elsewhere":          {world: world{members: 3}, elsewhere: true},
		"auth, leader, same place":  {world: world{members: 3, auth: true}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.quota, tc.keyFmt = mebi64, "k%d"
			d := newDance(t, tc.build(t))
			at := 2 // whom to replace
			rounds := 0
			for ; ; rounds++ {
				if strings.Contains(name, "leader") {
					at = d.Leader(t)
				}
				to := at
				if tc.elsewhere {
					var err error
					if to, err = d.Reserve(); err != nil {
						t.Fatal(err)
					}
				}
				killed := d.killedAndReplaced(t, rounds, at, to)
				at = to
				if !killed {
					break
				}
			}
			if want := 2 * 6; rounds < want {
				t.Errorf("%d events, want at least %d", rounds, want)
			}
			t.Logf("killed at %d events", rounds)
			d.nothingLost(t, at)
		})
	}
}

// killedAndReplaced kills a replacement at one of its events and has the same call
// finish it. It returns false if there were fewer events.
func (d *dance) killedAndReplaced(t *testing.T, event, from, to int) bool {
	t.Helper()
	d.aim(to)
	old, err := d.view(t).FindMember(d.Name(from))
	if err != nil {
		t.Fatal(err)
	}
	args := d.replaceArgs(d.Name(from), from, to)
	cmd, stderr, _ := d.kvd(t, args...)
	killed, seen, at := false, 0, ""
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		var e progress.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.State == "" {
			continue
		}
		if seen++; seen > event {
			killed, at = true, fmt.Sprintf("%s %s", e.Phase, e.State)
			_ = cmd.Process.Kill()
			break
		}
	}
	_, _ = io.Copy(io.Discard, stderr)
	err = cmd.Wait()
	if !killed && err != nil {
		t.Fatalf("event %d: not killed, and ended with %v", event, err)
	}
	if killed {
		code, out, said := d.run(t, args...)
		// Killed when all was done but for the end of the process, the old one is
		// gone and nobody has its name any more.
		done := code == 2 && strings.Contains(said, "no member has this name") && strings.HasPrefix(at, "verify done")
		if code != 0 && !done {
			t.Fatalf("killed at %q, the same call again: exit %d\n%s\n%s", at, code, out, said)
		}
	}
	if from != to {
		d.Forget(from)
	}
	d.asItShould(t, d.members, to, old.ID)
	return killed
}

// With another voter down nothing is touched.
func TestMemberReplaceRefusedWithAnotherDown(t *testing.T) {
	for name, tc := range map[string]struct {
		world
		alive, leader bool
	}{
		"mTLS and auth, three, dead":      {world: world{members: 3, secure: true}},
		"three, alive":                    {world: world{members: 3}, alive: true},
		"five, leader alive":              {world: world{members: 5}, alive: true, leader: true},
		"five, dead, auth":                {world: world{members: 5, auth: true}},
		"mTLS and auth, five, leader up ": {world: world{members: 5, secure: true}, alive: true, leader: true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.quota, tc.keyFmt = mebi64, "k%d"
			p := tc.build(t)
			d := &dance{place: p, state: t.TempDir() + "/state", script: "/bin/false"}
			leader := p.Leader(t)
			at, down := (leader+1)%tc.members, (leader+2)%tc.members
			if tc.leader {
				at = leader
			}
			list := func() string {
				var ids []string
				for _, m := range p.view(t).Members {
					ids = append(ids, fmt.Sprintf("%x %s %v", m.ID, m.Name, m.Learner))
				}
				return strings.Join(ids, ", ")
			}
			before := list()
			p.Kill(down)
			if !tc.alive {
				p.Kill(at)
			}
			code, out, said := d.run(t, d.replaceArgs(p.Name(at), at, at)...)
			if code != 5 && !(code == 4 && tc.members == 3 && !tc.alive && (tc.secure || tc.auth)) {
				t.Errorf("exit %d, want 5\n%s\n%s", code, out, said)
			}
			if after := list(); after != before {
				t.Errorf("members were %s, are %s", before, after)
			}
			if _, err := os.Stat(d.state); err == nil {
				t.Error("a record was written")
			}
		})
	}
}
