package diagnose_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/snapshot"
)

// What lies beside snapshots is none, and one folder that can't be read hides no other.
func TestWhatIsABackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, age time.Duration, content ...byte) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600), os.Chtimes(path, start.Add(-age), start.Add(-age))); err != nil {
			t.Fatal(err)
		}
		return path
	}
	look := func() diagnose.Report {
		in := &diagnose.Input{At: start, Limits: diagnose.DefaultLimits()}
		in.AddBackups(dir)
		return diagnose.Diagnose(in)
	}
	db := make([]byte, 4096)
	old := write("2026-01.db", 10*24*time.Hour, db...)
	write("backup.log", time.Hour, []byte("etcdctl snapshot save: context deadline exceeded\n")...)
	write("2026-02.db.part", time.Hour, db...) // as etcdctl leaves it
	write("2026-03.db", time.Hour)             // and a disk that was full
	if err := os.Symlink(filepath.Join(dir, "removed.db"), filepath.Join(dir, "latest")); err != nil {
		t.Fatal(err)
	}
	r := look()
	belongs(t, r, "KVD-OPS-002 warning")
	mentions(t, finding(t, r, "KVD-OPS-002").Summary, old, "10 days")

	for _, begins := range []string{"-----BEGIN PGP MESSAGE-----\n", "age-encryption.org/v1\n", "\xff\xfe\x00\x01"} { // encrypted ones are
		path := write("encrypted", time.Hour, []byte(begins)...)
		if r := look(); r.Has("KVD-OPS-002") {
			t.Errorf("a file that begins with %q is taken for no backup", begins)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}

	// A path that is too long can't be read by root either.
	long, err := os.OpenRoot(dir)
	for range 20 {
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Repeat("a", 250)
		if err = long.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		at := long
		long, err = at.OpenRoot(name)
		_ = at.Close()
	}
	defer long.Close()
	r = look()
	mentions(t, finding(t, r, "KVD-OPS-002").Summary, "there may be a newer one", "file name too long")
	write("b/new.db", time.Hour, db...)
	if r = look(); r.Has("KVD-OPS-002") || len(r.NotLooked) != 1 {
		t.Errorf("%+v", r)
	}
}

// packed makes a tar archive of files, compressed.
func packed(t *testing.T, files ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: "f", Typeflag: tar.TypeReg, Size: int64(len(f)), Mode: 0o600})
		if _, werr := w.Write(f); err != nil || werr != nil {
			t.Fatal(err, werr)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The archives, logs and half files that lie beside a backup are not taken for a newer
// one, and a link is as old as what it leads to.
func TestWhatOnlyLooksLikeANewBackup(t *testing.T) {
	t.Parallel()
	stored, err := os.ReadFile("../ops/dbfile/testdata/real-registry.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	pod, key := []byte("apiVersion: v1\nkind: Pod\n"), []byte("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n")
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		file    string
		content []byte
		at      time.Duration // before now
		old     bool          // the one of ten days ago is still the newest
		says    string
	}{
		"static pods and certificates": {"static_kuberesources_2026-02-03_040506.tar.gz", packed(t, pod, key), time.Hour, true, ""},
		"a log that was rotated":       {"backup.log.1.gz", zipped(t, []byte("etcdctl: context deadline exceeded\n")), time.Hour, true, ""},
		"an archive with a snapshot":   {"etcd.tar.gz", packed(t, pod, whole), time.Hour, false, ""},
		"changes of backup-restore":    {"v2/Incr-00000009-00000012-1722000000.gz", zipped(t, []byte(`[{"type":"PUT"}]`)), time.Hour, false, ""},
		"a compressed snapshot":        {"etcd.db.gz", zipped(t, whole), time.Hour, false, ""},
		"an archive that is encrypted": {"etcd.tar.gz", packed(t, []byte("-----BEGIN PGP MESSAGE-----\n")), time.Hour, false, ""},
		"a member's log":               {"member/wal/0000000000000000-0000000000000000.wal", []byte{4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4}, time.Hour, true, ""},
		"half a snapshot":              {"half a.db", whole[:len(whole)/2], time.Hour, true, "half a.db is newer and no backup: it is cut short"},
		"a whole one":                  {"whole.db", whole, time.Hour, false, ""},
		"one of tomorrow":              {"tomorrow.db", whole, -day, true, "tomorrow.db does not count: its time"},
		"one of a clock that is ahead": {"now.db", whole, -time.Second, false, "now.db is 0s old"},
	} {
		dir := filepath.Join(t.TempDir(), "backups")
		write := func(file string, content []byte, age time.Duration) {
			path := filepath.Join(dir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600), os.Chtimes(path, start.Add(-age), start.Add(-age))); err != nil {
				t.Fatal(err)
			}
		}
		write("old.db", whole, 10*day)
		write(tc.file, tc.content, tc.at)
		link := dir + ".link" // the folder itself may be a link as well
		if err := errors.Join(os.Symlink(dir, link), os.Symlink("old.db", filepath.Join(dir, "latest.db"))); err != nil {
			t.Fatal(err)
		}
		in := &diagnose.Input{At: start, Limits: diagnose.DefaultLimits()}
		in.AddBackups(link)
		r := diagnose.Diagnose(in)
		if r.Has("KVD-OPS-002") != tc.old {
			t.Errorf("%s: %+v", name, in.Backups)
			continue
		}
		said := ""
		for _, c := range r.Checks {
			if c.Check == "backups" {
				said = c.Measured
			}
		}
		if tc.old {
			said = finding(t, r, "KVD-OPS-002").Summary
			mentions(t, said, "the newest backup, "+link+"/", "is 10 days old")
			if cut := filepath.Join(link, "half a.db"); name == "half a snapshot" && !slices.Contains(finding(t, r, "KVD-OPS-002").Remedy, "kvd snapshot verify '"+cut+"'") {
				t.Errorf("remedy %q", finding(t, r, "KVD-OPS-002").Remedy)
			}
		}
		if !strings.Contains(said, tc.says) {
			t.Errorf("%s: %q is not in %q", name, tc.says, said)
		}
	}
}

// A job that was pointed at another cluster leaves a backup of today of that one: by the
// manifests that kvd writes it is none of this.
func TestABackupOfAnotherCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	content := bytes.Repeat([]byte{1}, 4096)
	save := func(name string, of snapshot.ID, at time.Time) {
		m := snapshot.Manifest{Format: "kvd-snapshot-1", File: name, SizeBytes: int64(len(content)), SHA256: strings.Repeat("0", 64), Verified: snapshot.VerifiedFull, ClusterID: of, EndedAt: at}
		raw, err := json.Marshal(m)
		path := filepath.Join(dir, name)
		if err = errors.Join(err, os.WriteFile(path, content, 0o600), os.WriteFile(snapshot.ManifestPath(path), raw, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	w := healthy()
	w.in.At = start
	own := snapshot.ID(w.in.Now.View.ID)
	save("own.db", own, start.Add(-48*time.Hour))
	save("other.db", own+1, start.Add(-time.Hour))
	if err := os.Rename(filepath.Join(dir, "own.db"), filepath.Join(dir, "copied.db")); err != nil { // with the time of today
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "own.db.json"), filepath.Join(dir, "copied.db.json")); err != nil {
		t.Fatal(err)
	}
	w.in.AddBackups(dir)
	r := diagnose.Diagnose(w.in)
	mentions(t, finding(t, r, "KVD-OPS-002").Summary, "copied.db, is 2 days old", "other.db is newer and does not count: by its manifest it is of cluster "+(own+1).String()+", and this one is "+own.String())

	// A compressed one shows by its manifest alone that it is not all there.
	m := snapshot.Manifest{Format: "kvd-snapshot-1", File: "cut.db.zst", SizeBytes: 9999, SnapshotBytes: 99999, SHA256: strings.Repeat("0", 64), Verified: snapshot.VerifiedFull, ClusterID: own, EndedAt: start}
	raw, err := json.Marshal(m)
	cut := filepath.Join(dir, m.File)
	if err = errors.Join(err, os.WriteFile(cut, content, 0o600), os.Chtimes(cut, start, start), os.WriteFile(snapshot.ManifestPath(cut), raw, 0o600)); err != nil {
		t.Fatal(err)
	}
	w.in.AddBackups(dir)
	mentions(t, finding(t, diagnose.Diagnose(w.in), "KVD-OPS-002").Summary, "copied.db, is 2 days old", "cut.db.zst is newer and no backup: it has 4096 of the 9999 bytes that its manifest tells")

	in := &diagnose.Input{At: start, Limits: diagnose.DefaultLimits()} // which cluster it is for is not known
	in.AddBackups(dir)
	if r := diagnose.Diagnose(in); r.Has("KVD-OPS-002") {
		t.Errorf("%+v", r.Findings)
	}
}
