package snapshot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/ops/spool"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// source is a cluster to save from.
type source struct {
	*servertest.Cluster

	t      *testing.T
	client *cluster.Client
}

func startSource(t *testing.T, members int) *source {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: members, Args: []string{"--unsafe-no-fsync"}}})
	c.WaitSettled(t)
	client, err := cluster.Connect(cluster.Config{Endpoints: c.Endpoints(), CommandTimeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() }) //nolint:errcheck // only read
	return &source{c, t, client}
}

// fill puts so many MiB that do not compress.
func (s *source) fill(mib int) {
	s.t.Helper()
	cli, value := s.Client(s.t), make([]byte, 1<<20)
	for i := range mib {
		copy(value, fmt.Sprint(i))
		for at := 8; at < len(value); at += sha256.Size {
			sum := sha256.Sum256(value[at-8 : at])
			copy(value[at:], sum[:])
		}
		if _, err := cli.Put(servertest.Context(s.t, time.Minute), fmt.Sprintf("k%03d", i), string(value)); err != nil {
			s.t.Fatal(err)
		}
	}
}

func options(dest string) snapshot.SaveOptions {
	o := snapshot.DefaultSaveOptions()
	o.Dest = dest
	if dest != snapshot.Stdout {
		o.Manifest = snapshot.ManifestPath(dest)
	}
	return o
}

func (s *source) save(ctx context.Context, o snapshot.SaveOptions, sink progress.Sink) (*snapshot.Saved, error) {
	view, err := s.client.View(ctx)
	if err != nil {
		return nil, err
	}
	return snapshot.Save(ctx, s.client, view, o, sink)
}

// onReceiving calls f once, when some of the database has arrived and some has not.
func onReceiving(f func()) progress.Sink {
	var once sync.Once
	return progress.Func(func(e progress.Event) {
		if e.Phase == "receiving" && e.Done < e.Total {
			once.Do(f)
		}
	})
}

func holds(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if err != nil || strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("the folder has %q, %v; want %q", got, err, names)
	}
}

func wantFault(t *testing.T, what string, err error, kind fault.Kind, cause string) {
	t.Helper()
	if fault.KindOf(err) != kind || fault.CauseOf(err) != cause {
		t.Errorf("%s: %s %s: %v; want %s %s", what, fault.KindOf(err), fault.CauseOf(err), err, kind, cause)
	}
}

// What goes wrong while a large database is read leaves nothing behind.
func TestSaveThatFails(t *testing.T) {
	t.Parallel()
	s := startSource(t, 1)
	s.fill(48)
	ctx := servertest.Context(t, 2*time.Minute)

	t.Run("somebody takes the name", func(t *testing.T) {
		dir := t.TempDir()
		dest := filepath.Join(dir, "s.db")
		_, err := s.save(ctx, options(dest), onReceiving(func() { _ = os.WriteFile(dest, []byte("mine"), 0o600) }))
		wantFault(t, "save", err, fault.Refused, "file_exists")
		if got, _ := os.ReadFile(dest); string(got) != "mine" {
			t.Errorf("it has %q now", got)
		}
		holds(t, dir, "s.db")
	})
	t.Run("two to the same place", func(t *testing.T) {
		dir := t.TempDir()
		dest := filepath.Join(dir, "s.db")
		var second error
		_, err := s.save(ctx, options(dest), onReceiving(func() { second = options(dest).CheckDest() }))
		wantFault(t, "the second", second, fault.Refused, "file_in_use")
		if err != nil {
			t.Error(err)
		}
		holds(t, dir, "s.db", "s.db.json")
	})
	t.Run("interrupted", func(t *testing.T) {
		for _, compression := range []string{spool.None, spool.Zstd} {
			dir := t.TempDir()
			o := options(filepath.Join(dir, "s.db"))
			o.Compression = compression
			ctx, cancel := context.WithCancel(ctx)
			_, err := s.save(ctx, o, onReceiving(cancel))
			if !errors.Is(err, context.Canceled) && fault.KindOf(err) != fault.Interrupted {
				t.Errorf("%s: %v", compression, err)
			}
			holds(t, dir)
		}
	})
	t.Run("the reader leaves", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close() //nolint:errcheck // its reader has left
		_ = r.Close()
		o := options(snapshot.Stdout)
		o.Out = w
		for _, o.Verify = range []string{snapshot.VerifiedFull, snapshot.VerifiedHash} {
			_, err = s.save(ctx, o, progress.Discard)
			wantFault(t, o.Verify, err, fault.Unavailable, "reader_left")
		}
	})
	t.Run("a full disk", func(t *testing.T) {
		dir := t.TempDir()
		servertest.MountSmall(t, dir, 20)
		o := options(filepath.Join(dir, "s.db"))
		for _, o.Compression = range []string{spool.None, spool.Zstd} {
			for _, o.Verify = range []string{snapshot.VerifiedFull, snapshot.VerifiedHash} {
				_, err := s.save(ctx, o, progress.Discard)
				wantFault(t, o.Compression+" "+o.Verify, err, fault.Unavailable, "disk_full")
				holds(t, dir)
			}
		}
	})
	t.Run("the server is killed", func(t *testing.T) {
		dir := t.TempDir()
		_, err := s.save(ctx, options(filepath.Join(dir, "s.db")), onReceiving(func() { s.Kill(0) }))
		wantFault(t, "save", err, fault.Unavailable, cluster.CauseStreamCut)
		holds(t, dir)
	})
}

// However it is stored, it is the same snapshot, and its manifest says so.
func TestSaveEveryWay(t *testing.T) {
	t.Parallel()
	s := startSource(t, 1)
	s.fill(3)
	ctx := servertest.Context(t, 2*time.Minute)
	for _, compression := range []string{spool.None, spool.Zstd} {
		for _, check := range []string{snapshot.VerifiedFull, snapshot.VerifiedHash} {
			for _, pipe := range []bool{false, true} {
				name := fmt.Sprintf("%s, %s, pipe %v", compression, check, pipe)
				dest := filepath.Join(t.TempDir(), "s.db")
				o, out := options(dest), &bytes.Buffer{}
				if pipe {
					o.Dest, o.Out = snapshot.Stdout, out
				}
				o.Compression, o.Verify = compression, check
				saved, err := s.save(ctx, o, progress.Discard)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if pipe {
					if err := os.WriteFile(dest, out.Bytes(), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				s.checkSaved(ctx, name, dest, saved)
			}
		}
	}
}

// checkSaved holds a stored file against its manifest.
func (s *source) checkSaved(ctx context.Context, name, dest string, saved *snapshot.Saved) {
	t := s.t
	t.Helper()
	m, err := snapshot.ReadManifest(snapshot.ManifestPath(dest))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if *m != *saved.Manifest {
		t.Errorf("%s: the manifest is %+v, the result %+v", name, m, saved.Manifest)
	}
	raw, err := os.ReadFile(dest)
	sum := sha256.Sum256(raw)
	if err != nil || m.SizeBytes != int64(len(raw)) || m.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%s: %d bytes, %x, %v; the manifest says %+v", name, len(raw), sum, err, m)
	}
	v, err := snapshot.Verify(ctx, dest, snapshot.Options{}, progress.Discard)
	if err != nil || v.Verdict != snapshot.Restorable {
		t.Fatalf("%s: %+v, %v", name, v, err)
	}
	c := v.Content
	if (v.Packed != nil) != (m.Compression == spool.Zstd) || m.SnapshotBytes != v.SizeBytes || m.SnapshotSHA256 != c.Digests.FileSHA256 || m.DataSHA256 != c.Digests.DataSHA256 {
		t.Errorf("%s: %+v, packed %+v; the manifest says %+v", name, c.Digests, v.Packed, m)
	}
	if m.Verified == snapshot.VerifiedFull && (m.Revision != c.Revision || m.Keys != 3 || m.KV != c.Digests.KV || m.ConsistentIndex != c.ConsistentIndex) {
		t.Errorf("%s: %+v; the manifest says %+v", name, c, m)
	}
	if m.StartRevision != 4 || m.Member.Name != s.Name(0) || m.ServerVersion != "3.7.3" || m.StorageVersion != "3.7.0" || m.ClusterID == 0 {
		t.Errorf("%s: %+v", name, m)
	}
}

// A file of a save that was killed is replaced; what it is linked to is not touched.
func TestSaveAfterAKill(t *testing.T) {
	t.Parallel()
	s := startSource(t, 1)
	ctx := servertest.Context(t, time.Minute)
	dir := t.TempDir()
	dest := filepath.Join(dir, "s.db")
	old := []byte("an older snapshot")
	if err := errors.Join(os.WriteFile(dest, old, 0o600), os.Link(dest, dest+".kvd.part"), os.Link(dest, filepath.Join(dir, "z"))); err != nil {
		t.Fatal(err)
	}
	_, err := s.save(ctx, options(dest), progress.Discard)
	wantFault(t, "without --force", err, fault.Refused, "file_exists")
	o := options(dest)
	o.Force = true
	if _, err := s.save(ctx, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, "s.db", "s.db.json", "z")
	if got, err := os.ReadFile(filepath.Join(dir, "z")); err != nil || !bytes.Equal(got, old) {
		t.Errorf("%q, %v", got, err)
	}
	info, err := os.Stat(dest)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// What saves to other names have left goes as well, but not what may be in use.
func TestSaveSweeps(t *testing.T) {
	t.Parallel()
	s := startSource(t, 1)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	dayAgo := time.Now().Add(-24 * time.Hour)
	for _, name := range []string{"1.db.kvd.part", "2.db.kvd.part", "3.db.kvd.part", "other.part"} {
		if err := os.WriteFile(at(name), []byte("a part"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inUse, err := os.Open(at("2.db.kvd.part"))
	if err != nil {
		t.Fatal(err)
	}
	defer inUse.Close() //nolint:errcheck // only locked
	if err := errors.Join(syscall.Flock(int(inUse.Fd()), syscall.LOCK_EX), os.Chtimes(at("1.db.kvd.part"), dayAgo, dayAgo),
		os.Chtimes(inUse.Name(), dayAgo, dayAgo), os.Chtimes(at("other.part"), dayAgo, dayAgo)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.save(servertest.Context(t, time.Minute), options(at("s.db")), progress.Discard); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, "2.db.kvd.part", "3.db.kvd.part", "other.part", "s.db", "s.db.json")
}

// With a member down it says which, and takes a follower; without a quorum it
// takes what there is only if it is told to.
func TestSaveChoosesAmongThree(t *testing.T) {
	t.Parallel()
	s := startSource(t, 3)
	s.fill(1)
	ctx := servertest.Context(t, 2*time.Minute)
	leader := s.Leader(t)
	down, left := (leader+1)%3, (leader+2)%3
	s.Kill(down)
	var warned []string
	saved, err := s.save(ctx, options(filepath.Join(t.TempDir(), "s.db")), progress.Func(func(e progress.Event) {
		if e.Warning {
			warned = append(warned, e.Note)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if m := saved.Manifest; m.Member.Name != s.Name(left) || m.Member.Role != cluster.RoleFollower || m.Revision < 2 {
		t.Errorf("%+v", m)
	}
	if p := saved.PassedOver; len(p) != 1 || !strings.HasPrefix(p[0].Member, s.Name(down)) || p[0].Reason == "" || len(warned) != 1 || !strings.Contains(warned[0], p[0].Reason) {
		t.Errorf("passed over %v, warnings %q", p, warned)
	}
	s.Kill(leader)
	o := options(filepath.Join(t.TempDir(), "s.db"))
	_, err = s.save(ctx, o, progress.Discard)
	wantFault(t, "without a quorum", err, fault.Unavailable, cluster.CauseNoQuorum)
	for _, want := range []string{"1 of 3 voters answer", s.Name(down), s.Name(leader), "--without-quorum"} {
		if all := fmt.Sprint(err, fault.HintOf(err)); !strings.Contains(all, want) || strings.Contains(all, "take effect") {
			t.Errorf("without a quorum: %s; want %q", all, want)
		}
	}
	o.WithoutQuorum = true
	saved, err = s.save(ctx, o, progress.Discard)
	if err != nil || saved.Manifest.Member.Name != s.Name(left) || saved.Manifest.Revision != 2 || saved.Manifest.StartRevision != 0 {
		t.Errorf("what is left: %+v, %v", saved, err)
	}
}

// A member whose own data is damaged sends what has a hash and is no backup.
func TestSaveFromADamagedMember(t *testing.T) {
	t.Parallel()
	s := startSource(t, 1)
	ctx := servertest.Context(t, time.Minute)
	if _, err := s.Client(t).Put(ctx, "damaged", "value"); err != nil {
		t.Fatal(err)
	}
	if err := s.StopMember(ctx, 0); err != nil {
		t.Fatal(err)
	}
	db, err := os.ReadFile(s.DBPath(0))
	if err != nil {
		t.Fatal(err)
	}
	// Field 2 is the revision that created it, field 3 the one that changed it.
	record := []byte("\x0a\x07damaged\x10\x02\x18\x02\x20\x01")
	if !bytes.Contains(db, record) {
		t.Fatal("the record is not where it was expected")
	}
	changed := bytes.Clone(record)
	changed[12] = 9
	if err := os.WriteFile(s.DBPath(0), bytes.ReplaceAll(db, record, changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.StartMember(ctx, 0); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := options(filepath.Join(dir, "s.db"))
	_, err = s.save(ctx, o, progress.Discard)
	wantFault(t, "save", err, fault.Damage, string(snapshot.ClassBadRecords))
	holds(t, dir)
	o.Dest, o.Out, o.Manifest = snapshot.Stdout, &failing{t}, ""
	_, err = s.save(ctx, o, progress.Discard)
	wantFault(t, "into a pipe", err, fault.Damage, string(snapshot.ClassBadRecords))
	o = options(filepath.Join(dir, "s.db"))
	o.Verify = snapshot.VerifiedHash
	if _, err = s.save(ctx, o, progress.Discard); err != nil {
		t.Errorf("as it is: %v", err)
	}
}

// failing is a pipe that nothing may come through.
type failing struct{ t *testing.T }

func (f *failing) Write(b []byte) (int, error) {
	f.t.Errorf("%d bytes came through", len(b))
	return 0, io.ErrClosedPipe
}
