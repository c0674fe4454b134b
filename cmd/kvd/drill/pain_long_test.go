//go:build long

package drill_test

import (
	"strings"
	"testing"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/fault"
)

// pains are all load drills, as their commands play them.
func pains(t *testing.T) []drill.Pain {
	t.Helper()
	return []drill.Pain{drill.SlowWatcher(200, 10), drill.Events(250), drill.Leader(500),
		drill.Heartbeats(1000), drill.Endpoints(1000, 10), drill.BigObjects(1<<20, 16<<10, 5), bigList(t, drill.RemedyStream)}
}

func bigList(t *testing.T, remedy string) drill.Pain {
	t.Helper()
	p, err := drill.BigList(10000, 10, remedy)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// whole are the options of a drill as its command plays it.
func whole(t *testing.T, p drill.Pain) drill.PainOptions {
	t.Helper()
	o := drill.DefaultPainOptions()
	o.Members = max(o.Members, p.Members)
	o.Dir, o.Command = t.TempDir(), painOptions(t).Command
	if p.Name == "big-list" {
		o.Duration = drill.ListDuration
	}
	return o
}

// playWhole plays one again where it could not tell, as it advises: on a machine that
// does other things a member may not tell its metrics in time.
func playWhole(t *testing.T, p drill.Pain, o drill.PainOptions) (r drill.PainReport, err error) {
	t.Helper()
	for range 4 {
		if r, err = playPain(t, p, o); fault.KindOf(err) != fault.Inconclusive {
			break
		}
		t.Logf("once more: %v", err)
	}
	return r, err
}

// Each as a user plays it, with etcd's own fsync.
func TestPains(t *testing.T) {
	for _, p := range pains(t) {
		t.Run(p.Name, func(t *testing.T) {
			o := whole(t, p)
			o.Command.Args = []string{"serve"}
			r, err := playWhole(t, p, o)
			if err != nil {
				t.Fatal(err)
			}
			checkPain(t, p, o, r)
		})
	}
}

// Without its remedy none is called proved, and it is both the figures and the
// finding that say so.
func TestPainsSabotaged(t *testing.T) {
	for _, p := range pains(t) {
		t.Run(p.Name, func(t *testing.T) {
			o := whole(t, p)
			o.NoRemedy = true
			r, err := playWhole(t, p, o)
			missing := strings.Join(r.Missing, "\n")
			if fault.KindOf(err) != fault.Wanting || r.Outcome != drill.NotProved || !strings.Contains(missing, "still says "+p.Symptom) {
				t.Errorf("outcome %s, missing %v, error %v", r.Outcome, r.Missing, err)
			}
			broken := 0
			for _, f := range r.Figures {
				if f.Verdict == drill.FigureBroken {
					broken++
				}
			}
			if broken == 0 || len(r.Missing) != broken+1 {
				t.Errorf("%d figures are broken, missing %v", broken, r.Missing)
			}
		})
	}
}

// Where the load does not give the finding, nothing was reproduced.
func TestPainThatIsNone(t *testing.T) {
	p, o := drill.Heartbeats(5), painOptions(t)
	r, err := playPain(t, p, o)
	if fault.KindOf(err) != fault.Wanting || r.Outcome != drill.NotReproduced || !strings.Contains(strings.Join(r.Missing, ""), "does not say KVD-CHURN-002") {
		t.Errorf("outcome %s, missing %v, error %v", r.Outcome, r.Missing, err)
	}
}

// Three members, who also send each other what is written.
func TestHeartbeatsOfThree(t *testing.T) {
	p, o := drill.Heartbeats(300), painOptions(t)
	o.Members, o.QuotaBytes = 3, 256<<20
	r, err := playPain(t, p, o)
	if err != nil {
		t.Fatal(err)
	}
	checkPain(t, p, o, r)
}

// API servers that begin anew, as the command plays it.
func TestRelistStorm(t *testing.T) {
	for name, remedy := range map[string]string{"pages": drill.RelistPages, "stream": drill.RelistStream, "not remedied": drill.RelistPages} {
		t.Run(name, func(t *testing.T) {
			o := drill.DefaultPainOptions()
			o.Duration, o.Dir, o.Command, o.NoRemedy = drill.RelistDuration, t.TempDir(), painOptions(t).Command, name == "not remedied"
			p, err := drill.RelistStorm(5000, drill.RelistAPIServers, remedy, o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := playPain(t, p, o)
			switch {
			case o.NoRemedy && (fault.KindOf(err) != fault.Wanting || r.Outcome != drill.NotProved):
				t.Errorf("outcome %s, missing %v, error %v", r.Outcome, r.Missing, err)
			case o.NoRemedy:
			case err != nil:
				t.Fatal(err)
			default:
				checkPain(t, p, o, r)
			}
		})
	}
}

// The other ways to read less at a time.
func TestBigListRemedies(t *testing.T) {
	for _, remedy := range []string{drill.RemedyPages, drill.RemedyCache} {
		t.Run(remedy, func(t *testing.T) {
			p := bigList(t, remedy)
			o := whole(t, p)
			r, err := playWhole(t, p, o)
			if err != nil {
				t.Fatal(err)
			}
			checkPain(t, p, o, r)
		})
	}
}
