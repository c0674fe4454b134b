package ops

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// A guess of where a new member serves clients is never an address that somebody has.
func TestGuessedClientURLs(t *testing.T) {
	t.Parallel()
	at := func(urls ...string) (v cluster.View) { // peer, client, peer, client, …
		for i := 0; i < len(urls); i += 2 {
			v.Members = append(v.Members, cluster.Member{ID: uint64(i + 1), PeerURLs: urls[i : i+1], ClientURLs: urls[i+1 : i+2]})
		}
		return v
	}
	for _, tc := range []struct {
		view      cluster.View
		peer, now string
	}{
		{at("https://10.0.0.1:2380", "https://10.0.0.1:2379"), "https://10.0.0.2:2380", "https://10.0.0.2:2379"},
		{at("http://127.0.0.1:2380", "http://127.0.0.1:2379"), "http://127.0.0.1:12380", "http://127.0.0.1:12379"},
		{at("http://127.0.0.1:2380", "http://127.0.0.1:2379"), "http://127.0.0.1:2381", "http://127.0.0.1:2378"},
		{at("http://localhost:2380", "http://localhost:2379"), "http://127.0.0.1:2381", "http://127.0.0.1:2378"},
		{at("http://127.0.0.1:3001", "http://127.0.0.1:2001", "http://127.0.0.1:3002", "http://127.0.0.1:2002"), "http://127.0.0.1:3003", "http://127.0.0.1:3000"},
		{at("http://10.0.0.1:2379", "http://10.0.0.1:2378"), "http://10.0.0.1:2380", "http://10.0.0.1:2377"},
	} {
		if got := guessClientURLs(tc.view, []string{tc.peer}); len(got) != 1 || got[0] != tc.now {
			t.Errorf("for %s: %v, want %s", tc.peer, got, tc.now)
		}
	}
}

// A member that has joined is not told to join with an empty data dir once more.
func TestAddWhatHasJoined(t *testing.T) {
	t.Parallel()
	v := fakeView(1, fakeMember{name: "a"}, fakeMember{name: "b"}, fakeMember{name: "c", down: true})
	for i := range v.Members {
		v.Members[i].PeerURLs, v.Members[i].ClientURLs = []string{"https://10.0.0." + string(rune('1'+i)) + ":2380"}, []string{"https://10.0.0." + string(rune('1'+i)) + ":9"}
	}
	for _, tc := range []struct {
		name          string
		learner       bool
		cause         string
		says, nothing string // in the notes
	}{
		{name: "c", cause: "voter_down"},
		{name: "c", learner: true, says: "with its own data dir", nothing: emptyDir},
		{name: "b", nothing: "data dir"},
	} {
		o := DefaultAddOptions()
		v.Members[2].Learner = tc.learner
		m, _ := v.FindMember(tc.name)
		o.Name, o.PeerURLs = m.Name, m.PeerURLs
		p, err := PlanMemberAdd(nil, v, o, progress.Discard)
		if fault.CauseOf(err) != tc.cause {
			t.Errorf("%+v: %v", tc, err)
		}
		if err != nil {
			continue
		}
		notes, start := strings.Join(p.Notes, "; "), p.Detail.(*MemberStart)
		if !strings.Contains(notes, tc.says) || strings.Contains(notes, tc.nothing) {
			t.Errorf("%+v: %s", tc, notes)
		}
		if strings.Contains(start.Kvd, emptyDir) || start.ClientURLs[0] != m.ClientURLs[0] || start.ClientURLsGuessed {
			t.Errorf("%+v: %+v", tc, start)
		}
	}
}

// What each change does to the quorum, and whether it is refused.
func TestQuorumOfChanges(t *testing.T) {
	t.Parallel()
	c := &membership{sink: progress.Discard, op: "member test"}
	for _, tc := range []struct {
		now, after balance
		cause      string
	}{
		{balance{1, 1}, balance{1, 1}.plus(false), "quorum"}, // C76: one voter more that does not run
		{balance{1, 1}, balance{1, 1}.plus(true), ""},
		{balance{3, 3}, balance{3, 3}.plus(false), ""},
		{balance{3, 2}, balance{3, 2}.plus(false), "quorum"},
		{balance{3, 2}, balance{3, 2}.minus(true), "quorum"}, // one of two that are alive, of three
		{balance{3, 2}, balance{3, 2}.minus(false), ""},
		{balance{2, 2}, balance{2, 2}.minus(true), ""},
		{balance{1, 1}, balance{1, 1}.minus(true), "last_voter"},
		{balance{5, 3}, balance{5, 3}.minus(true), "quorum"},
		{balance{5, 4}, balance{5, 4}.minus(true), ""},
		{balance{4, 3}, balance{4, 3}.plus(false), ""},
	} {
		err := c.keepsQuorum("m", "it", tc.after, "")
		if fault.CauseOf(err) != tc.cause {
			t.Errorf("%+v → %+v: %v, want cause %q", tc.now, tc.after, err, tc.cause)
		}
	}
	for _, tc := range []struct{ voters, alive, quorum, tolerated int }{{1, 1, 1, 0}, {2, 2, 2, 0}, {3, 3, 2, 1}, {4, 4, 3, 1}, {5, 4, 3, 1}, {3, 1, 2, 0}} {
		b := balance{tc.voters, tc.alive}
		if b.quorum() != tc.quorum || b.tolerated() != tc.tolerated || (b.parity() != "") != (tc.voters%2 == 0) {
			t.Errorf("%+v: quorum %d, tolerated %d, parity %q", b, b.quorum(), b.tolerated(), b.parity())
		}
	}
}

// The start line names every member once, those that never started as well.
func TestStartOf(t *testing.T) {
	t.Parallel()
	v := fakeView(1, fakeMember{name: "a"}, fakeMember{name: "b"}, fakeMember{down: true})
	for i := range v.Members {
		v.Members[i].PeerURLs = []string{"https://10.0.0." + string(rune('1'+i)) + ":2380"}
	}
	v.Members[2].ClientURLs = nil
	for _, tc := range []struct {
		name, url string
		gone      uint64
		want      string
	}{
		{"d", "https://10.0.0.9:2380", 0, "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380,member-3=https://10.0.0.3:2380,d=https://10.0.0.9:2380"},
		{"b", "https://10.0.0.2:2380", 2, "a=https://10.0.0.1:2380,member-3=https://10.0.0.3:2380,b=https://10.0.0.2:2380"},
		{"b", "https://10.0.0.9:2380", 0, "a=https://10.0.0.1:2380,b-2=https://10.0.0.2:2380,member-3=https://10.0.0.3:2380,b=https://10.0.0.9:2380"},
	} {
		s := StartOf(v, tc.name, []string{tc.url}, nil, tc.gone)
		if s.InitialCluster != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, s.InitialCluster, tc.want)
		}
		if !strings.Contains(s.Kvd, "--quota-backend-bytes=67108864") || !s.ClientURLsGuessed {
			t.Errorf("%s: %s", tc.name, s.Kvd)
		}
	}
	if got := listenURLs([]string{"https://etcd-1.example:2380", "http://10.0.0.1:2379", "http://[::1]:2379"}); strings.Join(got, " ") !=
		"https://0.0.0.0:2380 http://10.0.0.1:2379 http://[::1]:2379" {
		t.Error(got)
	}
}

// Without a quorum the ways out name the missing, the newest that can be seen, and
// those that can't be asked.
func TestWaysOut(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		members []fakeMember
		want    []string
	}{
		{[]fakeMember{{name: "a", lag: 7}, {name: "b", down: true}, {name: "c", down: true}}, []string{"bring back one of the voters", "is a (1)'s", "b (2), c (3) can't be asked", "start a (1) once with `kvd serve --force-new-cluster`"}},
		{[]fakeMember{{name: "a", lag: 7}, {name: "b", lag: 1}, {name: "c", down: true}, {name: "d", down: true}, {name: "e", down: true}}, []string{"is b (2)'s", "start b (2) once"}},
		{[]fakeMember{{name: "a", down: true}, {name: "b", down: true}, {name: "c", down: true}}, []string{"bring back 2 of the voters", "start the one with the newest data"}},
	} {
		v := fakeView(0, tc.members...)
		if n := len(WaysOut(v)); n > 450 {
			t.Errorf("%+v: %d characters to read in an outage", tc.members, n)
		}
		f := listOf(v, nil).Findings[0]
		got := f.Message + "; " + f.Hint
		for _, w := range tc.want {
			if !strings.Contains(got, w) {
				t.Errorf("%+v: no %q in %s", tc.members, w, got)
			}
		}
	}
}

// C76 (b), C77: what the members' own lists and an odd make-up are called.
func TestMemberFindings(t *testing.T) {
	t.Parallel()
	v := fakeView(1, fakeMember{name: "a"}, fakeMember{name: "b"}, fakeMember{name: "c", learner: true, lag: fakeHead / 2}, fakeMember{name: "zombie", down: true})
	v.Members[3].Name, v.Members[3].ClientURLs = "", nil
	own := func(i int, ids ...uint64) ownList {
		l := ownList{of: v.Members[i]}
		for _, id := range ids {
			l.members = append(l.members, v.Members[id-1])
		}
		return l
	}
	l := listOf(v, []ownList{own(0, 1, 2, 3), own(1, 1, 2, 3, 4)})
	if *l.Voters != 3 || *l.VotersAlive != 2 || l.Learners != 1 || *l.Quorum != 2 || *l.FailuresTolerated != 0 {
		t.Errorf("%+v", l)
	}
	var causes []string
	for _, f := range l.Findings {
		causes = append(causes, f.Cause)
	}
	if got := strings.Join(causes, " "); got != "lists_differ learner unstarted_voter" {
		t.Errorf("findings %s", got)
	}
	if r := *l.Members[2].CaughtUp; r != 0.5 {
		t.Errorf("caught up %g", r)
	}
	if got := listsDiffer([]ownList{own(0, 1, 2), own(1, 1, 2)}); len(got) != 0 {
		t.Errorf("equal lists: %v", got)
	}
}

// The record of a replacement is whole or not there, and believed only as long as
// it can be true.
func TestReplaceJournal(t *testing.T) {
	t.Parallel()
	j := journalOf(t.TempDir()+"/new", 0xabc)
	if r, err := j.load(); r != nil || err != nil {
		t.Fatal(r, err)
	}
	rec := &replaceRecord{ClusterID: "abc", BegunAt: time.Now(), OldID: "2", OldName: "b", NewName: "b", PeerURLs: []string{"http://10.0.0.2:2380"}}
	if err := j.save(rec); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(j.dir, ".member-replace-abc.json.tmp123") // while it was written
	if err := os.WriteFile(killed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := j.load()
	if err != nil || !got.same(rec) || !got.names("b") || !got.names("2") || got.names("a") {
		t.Fatal(got, err)
	}
	v := fakeView(1, fakeMember{name: "a"}, fakeMember{name: "b"})
	v.Members[1].ID, v.Members[1].PeerURLs = 9, rec.PeerURLs
	for _, tc := range []struct {
		who   string
		alive bool
		over  bool
	}{{"b", true, false}, {"b", false, true}, {"a", true, true}} {
		w := v
		w.Members = append([]cluster.Member{}, v.Members...)
		if !tc.alive {
			w.Members[1].Status = nil
		}
		r := &replacement{o: ReplaceOptions{Member: tc.who}}
		if r.over(rec, w) != tc.over {
			t.Errorf("%+v: over is not %v", tc, tc.over)
		}
	}
	if err := os.WriteFile(j.path, []byte(`{"old_id":"`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = j.load()
	errorsIs(t, err, fault.Refused, "state_dir")
	if hint := fault.HintOf(err); strings.Contains(hint, "--state-dir") || !strings.Contains(hint, "move the file away") {
		t.Errorf("no folder that can be written is wanting: %s", hint)
	}
	if err := j.drop(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(j.dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"--peer-urls=https://10.0.0.4:2380": "--peer-urls=https://10.0.0.4:2380",
		"http://[fd00::4]:2380":             "'http://[fd00::4]:2380'",
		"it's":                              `'it'\''s'`,
		"a b":                               "'a b'",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// What is to be typed about a member that shares its name goes by its ID: by the name, the
// command is refused.
func TestFindingsOfTwins(t *testing.T) {
	t.Parallel()
	view := cluster.View{Leader: 1, Members: []cluster.Member{
		{ID: 1, Name: "m1", Endpoint: "http://a", Status: &cluster.Status{Leader: 1}},
		{ID: 0xb2, Name: "m1", Endpoint: "http://b", Learner: true, Status: &cluster.Status{Leader: 1}},
	}}
	i := slices.IndexFunc(listOf(view, nil).Findings, func(f MemberFinding) bool { return f.Cause == "learner" })
	if f := listOf(view, nil).Findings; i < 0 || !strings.Contains(f[i].Hint, "kvd member promote b2;") {
		t.Errorf("%+v", f)
	}
}

// A start line names the others by what etcd reads there, whatever they call themselves.
func TestStartBesideOddNames(t *testing.T) {
	t.Parallel()
	view := cluster.View{Members: []cluster.Member{{ID: 0xa1, Name: "a,b", PeerURLs: []string{"http://a:1"}}, {ID: 0xb2, Name: "a=b", PeerURLs: []string{"http://b:1"}}}}
	s := StartOf(view, "m3", []string{"http://c:1"}, nil, 0)
	urls, err := types.NewURLsMap(s.InitialCluster)
	if err != nil || len(urls) != 3 || len(urls["member-a1"]) != 1 || len(urls["member-b2"]) != 1 || len(urls["m3"]) != 1 {
		t.Errorf("%s: %v, %v", s.InitialCluster, urls, err)
	}
	for _, name := range []string{"a,b", "a=b"} {
		n := &newcomer{c: &membership{op: "member add"}, name: name, peerURLs: []string{"http://c:1"}}
		if err := n.prepare(view); fault.KindOf(err) != fault.Usage || fault.CauseOf(err) != "name" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
