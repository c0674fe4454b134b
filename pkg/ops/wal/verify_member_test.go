package wal_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// victim is a killed member's data directory, which each trial damages a copy of.
type victim struct {
	dir      string // holds member
	oldDB    string // its database before most of the writes
	lateDB   string // and before the last of them, behind the newest snapshot record
	revision int64
	records  []wal.Record // without data
	segments []wal.Segment
}

// newVictim lets a real member write, stops it, and writes its log anew with
// etcd's own code into segments of 64 KiB, of which there are then several.
func newVictim(t *testing.T, snapshotCount int) *victim {
	t.Helper()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync", fmt.Sprintf("--snapshot-count=%d", snapshotCount)}}})
	v := &victim{dir: filepath.Join(t.TempDir(), "data"), oldDB: filepath.Join(t.TempDir(), "db"), lateDB: filepath.Join(t.TempDir(), "db")}
	for _, writes := range []struct {
		n    int
		keep string
	}{{30, v.oldDB}, {310, v.lateDB}, {20, filepath.Join(t.TempDir(), "db")}} {
		cli := c.Client(t)
		for i := range writes.n {
			r, err := cli.Put(t.Context(), fmt.Sprintf("key-%03d", i), strings.Repeat("v", 1000))
			if err != nil {
				t.Fatal(err)
			}
			v.revision = r.Header.Revision
		}
		if err := c.StopMember(t.Context(), 0); err != nil { // so that the database has everything
			t.Fatal(err)
		}
		copyFile(t, c.DBPath(0), writes.keep)
		if writes.n == 20 {
			break
		}
		if err := c.StartMember(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(v.dir, os.DirFS(c.DataDir(0))); err != nil {
		t.Fatal(err)
	}
	if err := c.StartMember(t.Context(), 0); err != nil { // for the checks at the end
		t.Fatal(err)
	}
	for states := 0; states == 0 || len(v.of(-1)) < 12; states += 500 {
		rewrite(t, filepath.Join(v.dir, "member", "wal"), states, func(*raftpb.Entry) {})
		v.look(t)
	}
	if len(v.segments) < 5 {
		t.Fatalf("%d segments", len(v.segments))
	}
	return v
}

func (v *victim) look(t *testing.T) {
	t.Helper()
	var err error
	if v.segments, err = wal.Segments(filepath.Join(v.dir, "member", "wal")); err != nil {
		t.Fatal(err)
	}
	v.records = nil
	if err := wal.Records(t.Context(), v.dir, func(r wal.Record) error {
		r.Data, r.Entry.Data = nil, nil
		v.records = append(v.records, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// of returns the entries of a segment; from the last, if negative.
func (v *victim) of(segment int) (out []wal.Record) {
	for _, r := range v.records {
		if r.Type == wal.EntryType && r.File == v.segments[(segment+len(v.segments))%len(v.segments)].Name {
			out = append(out, r)
		}
	}
	return out
}

// entry returns the nth entry of a segment; from the last, if negative.
func (v *victim) entry(segment, nth int) wal.Record {
	of := v.of(segment)
	if nth < 0 {
		nth += len(of)
	}
	return of[nth]
}

// rewrite writes a log anew, record for record, with its entries changed, and the
// first state many times over, which moves where segments end.
func rewrite(t *testing.T, dir string, states int, change func(*raftpb.Entry)) {
	t.Helper()
	old := dir + ".old"
	if err := os.Rename(dir, old); err != nil {
		t.Fatal(err)
	}
	var w *etcdwal.WAL
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(wal.Records(t.Context(), old, func(r wal.Record) (err error) {
		data := slices.Clone(r.Data)
		switch r.Type {
		case wal.MetadataType:
			if w == nil {
				w, err = etcdwal.Create(nil, dir, data)
				check(err)
				w.SetUnsafeNoFsync()
			}
		case wal.EntryType:
			var e raftpb.Entry
			check(proto.Unmarshal(data, &e))
			change(&e)
			return w.Save(&raftpb.HardState{}, []*raftpb.Entry{&e})
		case wal.StateType:
			var s raftpb.HardState
			check(proto.Unmarshal(data, &s))
			for ; states > 0; states-- {
				check(w.Save(&s, nil))
			}
			return w.Save(&s, nil)
		case wal.SnapshotType:
			var s walpb.Snapshot
			if check(proto.Unmarshal(data, &s)); s.GetIndex() > 0 {
				return w.SaveSnapshot(&s)
			}
		case wal.CRCType:
		}
		return nil
	}))
	check(w.Close())
	check(os.RemoveAll(old))
}

// trial is a copy of the victim.
type trial struct {
	*testing.T
	v    *victim
	root string // of the cluster it will be a member of
	data string
}

func (t *trial) walFile(name string) string { return filepath.Join(t.data, "member", "wal", name) }

// snapFiles are the .snap files, of which there have to be some.
func (t *trial) snapFiles() []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(t.data, "member", "snap", "*.snap"))
	if err != nil || len(files) == 0 {
		t.Fatal("no .snap file", err)
	}
	return files
}

func (v *victim) copy(t *testing.T) *trial {
	t.Helper()
	root := t.TempDir()
	data := filepath.Join(root, "m1", "data")
	if err := os.CopyFS(data, os.DirFS(v.dir)); err != nil {
		t.Fatal(err)
	}
	return &trial{t, v, root, data}
}

// change writes bytes into a file of the log.
func (t *trial) change(name string, offset int64, f func([]byte)) {
	t.Helper()
	t.mend(t.walFile(name), func(raw []byte) { f(raw[offset:]) })
}

// mend changes a file.
func (t *trial) mend(path string, f func([]byte)) {
	t.Helper()
	raw, err := os.ReadFile(path)
	t.must(err)
	f(raw)
	t.must(os.WriteFile(path, raw, 0o600))
}

// sentDB is where a leader's database would be for the newest snapshot record.
func (t *trial) sentDB() string {
	t.Helper()
	now, err := wal.Verify(t.Context(), t.data, wal.VerifyOptions{})
	t.must(err)
	return filepath.Join(t.data, "member", "snap", fmt.Sprintf("%016x.snap.db", now.Numbers.Newest.Index))
}

// otherDB is the database of another cluster that has taken some writes.
func otherDB(t *testing.T, writes int) string {
	t.Helper()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync", "--initial-cluster-token=another"}}})
	puts(t, c.Client(t), writes)
	if err := c.StopMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	keep := filepath.Join(t.TempDir(), "db")
	copyFile(t, c.DBPath(0), keep)
	if err := c.StartMember(t.Context(), 0); err != nil { // for the checks at the end
		t.Fatal(err)
	}
	return keep
}

func (t *trial) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put gives an entry other data.
func (t *trial) put(index uint64, typ raftpb.EntryType, data []byte) {
	t.Helper()
	rewrite(t.T, filepath.Join(t.data, "member", "wal"), 0, func(e *raftpb.Entry) {
		if e.GetIndex() == index {
			e.Type, e.Data = &typ, data
		}
	})
}

// anonymous takes out what members tell of themselves.
func (t *trial) anonymous() {
	t.Helper()
	rewrite(t.T, filepath.Join(t.data, "member", "wal"), 0, func(e *raftpb.Entry) {
		var r etcdserverpb.InternalRaftRequest
		if e.GetType() == raftpb.EntryNormal && proto.Unmarshal(e.Data, &r) == nil && r.ClusterMemberAttrSet != nil {
			e.Data = nil
		}
	})
}

// records are those of the log as it is now, without their data.
func (t *trial) records() (out []wal.Record) {
	t.Helper()
	t.must(wal.Records(t.Context(), t.data, func(r wal.Record) error {
		r.Data, r.Entry.Data = nil, nil
		out = append(out, r)
		return nil
	}))
	return out
}

// end is behind the last of them.
func (t *trial) end() wal.Position {
	t.Helper()
	records := t.records()
	last := records[len(records)-1]
	return wal.Position{File: last.File, Offset: last.Offset + last.Size}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// hold starts a real server on the trial and holds the verdict against what it
// does.
func (t *trial) hold(v *wal.Verification, command local.Command) {
	t.Helper()
	c, err := local.New(local.Options{Command: command, Dir: t.root, Args: []string{"--unsafe-no-fsync"}})
	t.must(err)
	defer c.Close()
	ctx := servertest.Context(t, 2*time.Minute)
	if v.Verdict.Outcome == wal.Silent {
		t.silent(ctx, c)
		if at := v.Verdict.At; at != nil && v.Damages[0].Repaired() {
			if _, err := os.Stat(t.walFile(at.File + ".broken")); err != nil {
				t.Error(err)
			}
		}
		return
	}
	err = c.StartMember(ctx, 0)
	raw, rerr := os.ReadFile(c.LogPath(0))
	t.must(rerr)
	log := strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(string(raw))
	if v.Verdict.Outcome == wal.Refuses {
		switch {
		case err == nil:
			t.Errorf("it started, and should end with %q", v.Verdict.Message)
		case v.Verdict.Message == "" || !strings.Contains(log, v.Verdict.Message):
			t.Errorf("it did not say %q:\n%s", v.Verdict.Message, c.LogTail(0, 15))
		}
		return
	}
	if err != nil {
		t.Fatalf("verdict %s (%s), and it did not start: %v", v.Verdict.Outcome, v.Verdict.Why, err)
	}
	if repaired := strings.Contains(log, "repaired WAL"); repaired != (v.Verdict.Outcome == wal.Repairs) {
		t.Errorf("verdict %s, repaired: %v", v.Verdict.Outcome, repaired)
	}
	cli, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: 10 * time.Second})
	t.must(err)
	defer cli.Close()
	r, err := cli.Put(ctx, "after", "x")
	t.must(err)
	if lost := v.Verdict.Lost == nil && r.Header.Revision != t.v.revision+1; lost {
		t.Errorf("revision %d, before %d, and nothing was said to be lost", r.Header.Revision, t.v.revision)
	}
	t.must(c.StopMember(ctx, 0))
	if at := v.Verdict.At; at != nil && v.Verdict.Outcome == wal.Repairs {
		if _, err := os.Stat(t.walFile(at.File + ".broken")); err != nil {
			t.Error(err)
		}
	}
	again, err := wal.Verify(ctx, t.data, wal.VerifyOptions{})
	t.must(err)
	if again.Verdict.Outcome != wal.Starts || again.Damaged > v.Damaged {
		t.Errorf("afterwards: %+v", again.Verdict)
	}
}

// silent is a server that runs and answers nothing.
func (t *trial) silent(ctx context.Context, c *local.Cluster) {
	t.Helper()
	t.unanswered(ctx, c)
	raw, err := os.ReadFile(c.LogPath(0))
	t.must(err)
	if !strings.Contains(string(raw), "failed to publish local member") {
		t.Errorf("it did not fail to make itself known:\n%s", c.LogTail(0, 10))
	}
}

// unanswered expects the server to run and to answer nothing.
func (t *trial) unanswered(ctx context.Context, c *local.Cluster) {
	t.Helper()
	t.must(c.Launch(0))
	ctx, cancel := context.WithTimeout(ctx, 9*time.Second)
	defer cancel()
	cli, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints()})
	t.must(err)
	defer cli.Close()
	if r, err := cli.Get(ctx, "key-000"); err == nil {
		t.Errorf("it answers: %v", r)
	}
	if !c.Running(0) {
		t.Errorf("it does not run:\n%s", c.LogTail(0, 10))
	}
}

// otherMetadata gives the last segment's metadata another member, with a CRC that
// fits; what follows is dropped.
func (t *trial) otherMetadata() {
	t.Helper()
	last := t.v.segments[len(t.v.segments)-1].Name
	i := slices.IndexFunc(t.v.records, func(r wal.Record) bool { return r.File == last && r.Type == wal.MetadataType })
	r := t.v.records[i]
	raw, err := os.ReadFile(t.walFile(last))
	t.must(err)
	var rec walpb.Record
	n := binary.LittleEndian.Uint64(raw[r.Offset:]) & (1<<56 - 1)
	t.must(proto.Unmarshal(raw[r.Offset+8:r.Offset+8+int64(n)], &rec)) //nolint:gosec // a length in a file
	var frame []byte
	for bit := byte(1); uint64(len(frame)) != n; bit++ { // the CRC takes more or fewer bytes
		data := slices.Clone(rec.Data)
		data[3] ^= bit & 0x7f // of the member's ID
		other := &walpb.Record{Type: rec.Type, Data: data, Crc: new(crc32.Update(uint32(t.v.records[i-1].CRC), crc32.MakeTable(crc32.Castagnoli), data))}
		frame, err = proto.Marshal(other)
		t.must(err)
	}
	copy(raw[r.Offset+8:], frame)
	clear(raw[r.Offset+r.Size:])
	t.must(os.WriteFile(t.walFile(last), raw, 0o600))
}

// The .snap files beside a log are seen in a folder of any name.
func TestVerifyInAFolderNamedAsAPattern(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Dir: filepath.Join(t.TempDir(), "[1]*")}})
	if err := c.StopMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(c.DBPath(0)), "0000000000000001-0000000000000002.snap"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := wal.Verify(t.Context(), c.DataDir(0), wal.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(v.Findings, func(f wal.Finding) bool { return f.Cause == wal.CauseSnapFile }) {
		t.Errorf("the damaged .snap file is not told: %+v", v.Findings)
	}
}

// edit changes the database.
func (t *trial) edit(change func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.data, "member", "snap", "db"), 0o600, &bbolt.Options{NoFreelistSync: true})
	t.must(err)
	t.must(errors.Join(db.Update(change), db.Close()))
}

// addLearners adds learners to the members in the database.
func (t *trial) addLearners(n int) {
	t.edit(func(tx *bbolt.Tx) (err error) {
		for id := 10; id < 10+n && err == nil; id++ {
			err = tx.Bucket([]byte("members")).Put(fmt.Appendf(nil, "%016x", id), fmt.Appendf(nil, `{"id":%d,"peerURLs":["http://127.0.0.1:%[1]d"],"isLearner":true,"name":"l%[1]d"}`, id))
		}
		return err
	})
}

// demote makes learners of all members in the database.
func (t *trial) demote() {
	t.edit(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("members"))
		id, was := b.Cursor().First()
		return b.Put(bytes.Clone(id), bytes.Replace(was, []byte(`"peerURLs"`), []byte(`"isLearner":true,"peerURLs"`), 1))
	})
}
