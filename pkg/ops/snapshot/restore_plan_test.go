package snapshot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
)

// planOf plans a restore, of which nothing is run.
func planOf(t *testing.T, file string, r snapshot.Recipe) (*snapshot.Restore, error) {
	t.Helper()
	p, err := snapshot.PlanRestore(context.Background(), snapshot.RestoreOptions{File: file, Recipe: r}, progress.Discard)
	if err == nil {
		t.Cleanup(func() { _ = p.Close() })
	}
	return p, err
}

// A plan that was edited on one host would make members of one cluster that hold
// different things.
func TestRestoreRefusesAnEditedPlan(t *testing.T) {
	file, dir := write(t, "s.db", realRegistry(t)), t.TempDir()
	r := oneMember()
	r.Members = append(r.Members, snapshot.RecipeMember{Name: "m2", PeerURLs: []string{"http://127.0.0.2:2380"}})
	r.BumpRevision = 5
	p, err := planOf(t, file, r)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "plan.yaml")
	if err := p.Recipe.Write(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, cause string }{
		"as it was":             {``, ``, ""},
		"a comment and a start": {`^`, "# for prod\n---\n", ""},
		"another token":         {`restored-\w+`, `mine`, ""},
		"another made token":    {`restored-\w+`, `restored-0123456789ab`, "another_token"},
		"another bump":          {`bump_revision: 5`, `bump_revision: 1000000000`, "another_token"},
		"alarms":                {`clear_alarms: false`, `clear_alarms: true`, "another_token"},
		"names exchanged":       {`(?s)name: m1(.*)name: m2`, "name: m2${1}name: m1", "another_token"},
		"another URL":           {`127.0.0.2`, `127.0.0.3`, "another_token"},
		"another order":         {`(?s)(- name: m1.*)(- name: m2.*)skip`, "${2}${1}skip", ""},
		"another size":          {`size_bytes: \d+`, `size_bytes: 1`, "restore_plan"},
		"another revision":      {` revision: \d+`, ` revision: 7`, "restore_plan"},
		"another file":          {`sha256: ....`, `sha256: 0000`, "another_snapshot"},
		"no bump":               {`bump_revision: 5\n`, ``, "restore_plan"},
		"an empty bump":         {`bump_revision: 5`, `bump_revision:`, "restore_plan"},
		"no token":              {`initial_cluster_token: .*\n`, ``, "restore_plan"},
		"an empty token":        {`initial_cluster_token: .*`, `initial_cluster_token: ""`, "restore_plan"},
		"no size":               {`  size_bytes: \d+\n`, ``, "restore_plan"},
		"no snapshot":           {`(?s)snapshot:.*`, ``, "restore_plan"},
		"no members":            {`(?s)members:.*(skip)`, `$1`, "restore_plan"},
		"a second document":     {`$`, "---\nbump_revision: 7\n", "restore_plan"},
		"an unknown key":        {`$`, "bump: 7\n", "restore_plan"},
	} {
		path := write(t, "plan.yaml", []byte(regexp.MustCompile(c.from).ReplaceAllString(string(raw), c.to)))
		r, err := snapshot.ReadRecipe(path)
		if err == nil {
			_, err = planOf(t, file, r)
		}
		if fault.CauseOf(err) != c.cause || err != nil && fault.HintOf(err) == "" {
			t.Errorf("%s: %v (%s), want %q", name, err, fault.CauseOf(err), c.cause)
		}
	}
}

// With a token and peer URLs of the old cluster a restored member would be one of
// that again.
func TestRestoreRefusesTheOldCluster(t *testing.T) {
	s := startSource(t, 1)
	file := filepath.Join(t.TempDir(), "s.db")
	saved, err := s.save(t.Context(), snapshot.SaveOptions{Dest: file, Manifest: snapshot.ManifestPath(file)}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	members, err := s.Client(t).MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := snapshot.Recipe{Token: "etcd-cluster", Members: []snapshot.RecipeMember{{Name: "any", PeerURLs: members.Members[0].PeerURLs}}}
	if _, err := planOf(t, file, r); fault.CauseOf(err) != "old_cluster" || !strings.Contains(err.Error(), saved.Manifest.Member.ID.String()) {
		t.Errorf("%v", err)
	}
	r.Token = "another"
	p, err := planOf(t, file, r)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(p.Plan.Notes, "\n"); !strings.Contains(notes, `the token "another" was chosen`) {
		t.Errorf("nothing is said of the token:\n%s", notes)
	}
}

// How far clients may be ahead is said where the manifest tells the age, and not
// guessed from the time of a copy.
func TestRestoreSaysHowOldTheSnapshotIs(t *testing.T) {
	good := realRegistry(t)
	whole := verify(t, "s.db", good)
	manifest := func(started time.Time, sha string) string {
		raw, err := json.Marshal(snapshot.Manifest{Format: "kvd-snapshot-1", SizeBytes: whole.SizeBytes, SHA256: sha, SnapshotSHA256: sha, StartedAt: started})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	own, now := whole.Content.Digests.FileSHA256, time.Now()
	for name, c := range map[string]struct {
		manifest string
		bump     int64
		state    snapshot.ManifestState
		want     []string
	}{
		"none":              {"", 0, "absent", []string{"is not known (no manifest"}},
		"none, lifted":      {"", snapshot.AutoBump, "absent", []string{"is not known (no manifest", "lifted by last for 7 days"}},
		"its own":           {manifest(now.Add(-72*time.Hour), own), 0, "matches", []string{"taken 3 days ago", "may be 3888"}},
		"lifted too little": {manifest(now.Add(-72*time.Hour), own), 1000, "matches", []string{"more than the 1000 it is lifted by"}},
		"from the future":   {manifest(now.Add(time.Hour), own), 0, "matches", []string{"is not known (by its manifest", "in the future"}},
		"another file's":    {manifest(now, strings.Repeat("0", 64)), 0, "mismatch", []string{"manifest of another file", "is not known (no manifest"}},
		"broken":            {"{broken", 0, "unreadable", []string{"where the manifest would be, is none", "is not known (no manifest"}},
	} {
		file := write(t, "s.db", good)
		if c.manifest != "" {
			if err := os.WriteFile(snapshot.ManifestPath(file), []byte(c.manifest), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := oneMember()
		r.BumpRevision = c.bump
		p, err := planOf(t, file, r)
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(p.Plan.Notes, "\n")
		for _, want := range c.want {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: no %q in\n%s", name, want, notes)
			}
		}
		s, err := snapshot.Inspect(t.Context(), file, snapshot.Options{}, progress.Discard)
		if err != nil || s.Integrity.Manifest != c.state {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// The folder for all members is made where that is wanted, and goes with a restore
// that fails.
func TestRestoreMakesTheFolderForAll(t *testing.T) {
	file, dir := write(t, "s.db", realRegistry(t)), t.TempDir()
	o := snapshot.RestoreOptions{File: file}
	for i := range 2 {
		name := fmt.Sprint("m", i)
		o.Recipe.Members = append(o.Recipe.Members, snapshot.RecipeMember{Name: name, PeerURLs: []string{fmt.Sprint("http://127.0.0.1:", 2380+i)}})
		o.Here = append(o.Here, snapshot.RestoreTarget{Name: name, DataDir: filepath.Join(dir, "all", name), WALDir: filepath.Join(dir, "logs", name), MakeParent: true})
	}
	ctx, cancel := context.WithCancel(t.Context())
	interrupt := progress.Func(func(e progress.Event) {
		if e.Phase == "compare" {
			cancel()
		}
	})
	p, err := snapshot.PlanRestore(ctx, o, interrupt)
	if err != nil {
		t.Fatal(err)
	}
	onlyIn(t, dir) // nothing before the plan is run
	if _, err := p.Plan.Run(ctx, nil, progress.Discard); err == nil {
		t.Error("interrupted, and no error")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	onlyIn(t, dir)
	if _, err := restoreAll(t, o); err != nil {
		t.Fatal(err)
	}
	onlyIn(t, filepath.Join(dir, "all"), "m0", "m1")
	onlyIn(t, filepath.Join(dir, "logs"), "m0", "m1")

	if err := os.RemoveAll(filepath.Join(dir, "all", "m1")); err != nil {
		t.Fatal(err)
	}
	if _, err := restoreAll(t, o); fault.CauseOf(err) != "target_exists" || !strings.Contains(err.Error(), "the log of a member whose data are not in") {
		t.Errorf("over a log without data: %v", err)
	}
}
