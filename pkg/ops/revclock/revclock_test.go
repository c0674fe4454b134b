package revclock_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/revclock"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// TestNothingIsOldEnoughAtFirst: right after the start nothing may go, and then
// exactly what is older than the time to keep.
func TestNothingIsOldEnoughAtFirst(t *testing.T) {
	for _, tc := range []struct {
		keep, every time.Duration
		perSample   int64
	}{{10 * time.Minute, 30 * time.Second, 100}, {time.Hour, time.Minute, 1}, {20 * time.Second, time.Second, 7}} {
		l := revclock.New(1, tc.keep)
		if a := l.Before(noon); a.Known || a.Spans != 0 {
			t.Fatalf("an empty log answers %+v", a)
		}
		for i := range int64(1000) {
			now := noon.Add(time.Duration(i) * tc.every)
			l.Add(now, 1000+i*tc.perSample)
			a := l.Before(now)
			back := int64(tc.keep / tc.every)
			if a.Known != (i >= back) {
				t.Fatalf("keep %s, sample %d: %+v", tc.keep, i, a)
			}
			if a.Known && (a.Rev != 1000+(i-back)*tc.perSample || a.Age != tc.keep) {
				t.Fatalf("keep %s, sample %d: %+v, want revision %d", tc.keep, i, a, 1000+(i-back)*tc.perSample)
			}
			if n := l.Len(); int64(n) > back+2 {
				t.Fatalf("%d samples kept, %d are needed", n, back+1)
			}
		}
	}
}

// TestPausesKeepMore: what was not sampled is taken for young.
func TestPausesKeepMore(t *testing.T) {
	l := revclock.New(1, 10*time.Minute)
	l.Add(noon, 100)
	l.Add(noon.Add(time.Minute), 200)
	l.Add(noon.Add(time.Hour), 9000) // nobody looked in between
	if a := l.Before(noon.Add(time.Hour)); a.Rev != 200 || a.Age != 59*time.Minute {
		t.Errorf("%+v, want 200", a)
	}
	if a := l.Before(noon.Add(time.Hour + 9*time.Minute)); a.Rev != 200 {
		t.Errorf("%+v: 9000 may have been written just now", a)
	}
	if a := l.Before(noon.Add(time.Hour + 10*time.Minute)); a.Rev != 9000 {
		t.Errorf("%+v, want 9000", a)
	}
}

// TestRestoredCluster: a revision that goes back makes what was known worthless.
func TestRestoredCluster(t *testing.T) {
	l := revclock.New(1, time.Minute)
	l.Add(noon, 5000)
	l.Add(noon.Add(time.Minute), 6000)
	l.Add(noon.Add(2*time.Minute), 300)
	if a := l.Before(noon.Add(2*time.Minute + time.Second)); a.Known {
		t.Errorf("%+v after a restore", a)
	}
}

func TestSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	l := revclock.New(0xabc, 10*time.Minute)
	for i := range 40 {
		l.Add(noon.Add(time.Duration(i)*30*time.Second), int64(100*i))
	}
	now := noon.Add(39 * 30 * time.Second)
	if err := l.Save(dir, now); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	for _, tc := range []struct {
		name    string
		cluster uint64
		later   time.Duration
		head    int64
		rev     int64
		known   bool
		dropped int
	}{
		{"at once", 0xabc, time.Second, 3900, 1900, true, 0},
		{"head not known", 0xabc, time.Second, 0, 1900, true, 0},
		{"an hour later", 0xabc, time.Hour, 3900, 3900, true, 0},
		{"another cluster", 0xdef, time.Second, 3900, 0, false, 0}, // has a file of its own, which is not there
		{"restored to an older state", 0xabc, time.Second, 2050, 1900, true, 19},
		{"the clock was set back", 0xabc, -10 * time.Minute, 3900, 0, false, 21},
	} {
		got, dropped, err := revclock.Load(dir, tc.cluster, 10*time.Minute, now.Add(tc.later), tc.head)
		if err != nil {
			t.Fatal(err)
		}
		if a := got.Before(now.Add(tc.later)); a.Known != tc.known || a.Rev != tc.rev || dropped != tc.dropped {
			t.Errorf("%s: %+v, %d dropped; want %d, %d dropped", tc.name, a, dropped, tc.rev, tc.dropped)
		}
	}
}

// TestForeignFilesAreNotTrusted: a file cut anywhere is an error or an answer
// that keeps more, never less.
func TestForeignFilesAreNotTrusted(t *testing.T) {
	dir := t.TempDir()
	l := revclock.New(1, time.Minute)
	for i := range 5 {
		l.Add(noon.Add(time.Duration(i)*time.Minute), int64(10+i))
	}
	if err := l.Save(dir, noon.Add(5*time.Minute)); err != nil {
		t.Fatal(err)
	}
	path := revclock.Path(dir, 1)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	load := func(raw string) (revclock.Answer, error) {
		if err := os.WriteFile(path, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		got, _, err := revclock.Load(dir, 1, time.Minute, noon.Add(6*time.Minute), 0)
		if err != nil {
			return revclock.Answer{}, err
		}
		return got.Before(noon.Add(6 * time.Minute)), nil
	}
	for i := range len(whole) - 1 {
		if _, err := load(string(whole[:i])); fault.KindOf(err) != fault.Damage {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	for _, raw := range []string{"{}", "[]", "null", `{"format":"kvd-revclock-2"}`, "\x00\xff"} {
		if _, err := load(raw); fault.KindOf(err) != fault.Damage {
			t.Errorf("%q: %v", raw, err)
		}
	}
	body := func(samples string) string {
		return fmt.Sprintf(`{"format":"kvd-revclock-1","cluster_id":"1","samples":[%s]}`, samples)
	}
	for raw, want := range map[string]int64{
		body(``): 0,
		body(`{"at":"2026-11-29T12:00:00Z","revision":7}`):                                             7,
		body(`{"at":"2026-11-29T12:01:00Z","revision":9},{"at":"2026-11-29T12:00:00Z","revision":10}`): 9,
		body(`{"at":"2026-11-29T12:01:00Z","revision":9},{"at":"2026-11-29T12:02:00Z","revision":8}`):  9,
		body(`{"at":"2030-01-01T00:00:00Z","revision":9}`):                                             0,
		body(`{"at":"2026-11-29T12:00:00Z","revision":-5}`):                                            0,
		strings.Replace(body(`{"at":"2026-11-29T12:00:00Z","revision":7}`), `_id":"1"`, `_id":"2"`, 1): 0,
	} {
		if a, err := load(raw); err != nil || a.Rev != want {
			t.Errorf("%s: %+v %v, want %d", raw, a, err, want)
		}
	}
}

func TestStateDirThatCantBeUsed(t *testing.T) {
	l := revclock.New(1, time.Minute)
	if err := l.Save(filepath.Join(t.TempDir(), "none"), noon); fault.KindOf(err) != fault.Usage {
		t.Errorf("%v", err)
	}
}

// TestTryDir: what can't be used is found out without leaving anything.
func TestTryDir(t *testing.T) {
	for _, stay := range []bool{true, false} {
		root := t.TempDir()
		file := filepath.Join(root, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for dir, good := range map[string]bool{
			root: true, filepath.Join(root, "a", "b", "c"): true,
			file: false, filepath.Join(file, "below"): false, "/proc/none": false, "/proc/none/below": false,
		} {
			err := revclock.TryDir(dir, stay)
			if (err == nil) != good || (err != nil && (fault.KindOf(err) != fault.Usage || revclock.Full(err))) {
				t.Errorf("%s: %v", dir, err)
			}
		}
		want := 1
		if stay {
			want = 2
		}
		if left, _ := os.ReadDir(root); len(left) != want {
			t.Errorf("stay %v: left are %v", stay, left)
		}
	}
}

// TestSetAside never writes over what was moved before.
func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		if err := os.WriteFile(revclock.Path(dir, 1), []byte{byte(i)}, 0o600); err != nil {
			t.Fatal(err)
		}
		aside, err := revclock.SetAside(dir, 1, noon)
		if (err == nil) != (i == 0) {
			t.Errorf("%d: %q, %v", i, aside, err)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 2 {
		t.Errorf("%v", names)
	}
}
