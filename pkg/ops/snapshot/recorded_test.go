package snapshot_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
)

// said is what a server said of its content when the snapshot was taken. The
// snapshots are of etcd 3.4, 3.5, 3.6 and 3.7, and scripts/fixtures makes them.
type said struct {
	Version         string      `json:"version"`
	StorageVersion  string      `json:"storage_version"`
	Revision        int64       `json:"revision"`
	CompactRevision int64       `json:"compact_revision"`
	HashKV          uint32      `json:"hashkv"`
	Keys            []saidKey   `json:"keys"`    // live, by key
	History         []saidKey   `json:"history"` // live at the compacted revision, and every change since
	Leases          []saidLease `json:"leases"`
	Auth            struct {
		Enabled  bool     `json:"enabled"`
		Revision uint64   `json:"revision"` // 0 where the server did not say (3.4)
		Users    []string `json:"users"`
		Roles    []string `json:"roles"`
	} `json:"auth"`
	Alarms []struct {
		MemberID uint64 `json:"member_id"`
		Type     string `json:"type"`
	} `json:"alarms"`
	Members []struct {
		ID         uint64   `json:"id"`
		Name       string   `json:"name"`
		Learner    bool     `json:"learner"`
		PeerURLs   []string `json:"peer_urls"`
		ClientURLs []string `json:"client_urls"`
	} `json:"members"`
}

type saidKey struct {
	Key            []byte `json:"key"`
	CreateRevision int64  `json:"create_revision"`
	ModRevision    int64  `json:"mod_revision"`
	Version        int64  `json:"version"`
	Lease          int64  `json:"lease"`
	ValueSHA256    string `json:"value_sha256"`
	Deleted        bool   `json:"deleted"`
}

type saidLease struct {
	ID   int64    `json:"id"`
	TTL  int64    `json:"ttl_seconds"`
	Keys [][]byte `json:"keys"`
}

// fixture returns a snapshot by its name, which is VERSION-SCENE ("3.4-auth"), and
// what the server said of it.
func fixture(t testing.TB, name string) ([]byte, *said) {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", name+".db.xz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close() //nolint:errcheck // only read
	z, err := xz.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	s := &said{}
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	return content, s
}

// fixtures are the names of all of them.
func fixtures(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.db.xz")
	if err != nil || len(names) < 16 {
		t.Fatalf("%d snapshots, %v", len(names), err)
	}
	for i, n := range names {
		names[i] = strings.TrimSuffix(filepath.Base(n), ".db.xz")
	}
	return names
}

// What kvd reads in the snapshot of any version is what the server itself said.
func TestSnapshotsOfEveryVersion(t *testing.T) {
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			content, want := fixture(t, name)
			path := write(t, "s.db", content)
			sameStatus(t, path, want)
			sameRecords(t, path, want)
			v := verify(t, "s.db", content)
			if v.Verdict != snapshot.Restorable || v.Class != snapshot.ClassWhole || v.DamagesFound != 0 {
				t.Errorf("%s (%s) %s", v.Verdict, v.Class, v.Summary)
			}
			if v := verify(t, "s.db", content[:len(content)-32]); v.Verdict != snapshot.Unproven || v.Class != snapshot.ClassRawCopy {
				t.Errorf("without its hash: %s (%s) %s", v.Verdict, v.Class, v.Summary)
			}
		})
	}
}

// counts are the numbers of a status.
type counts struct {
	revision, compacted, keys, revisions, tombstones int64
	leases, leasedKeys, maxTTL                       int64
	users, roles                                     int64
	auth                                             bool
	kv                                               snapshot.KVHash
	alarms                                           []snapshot.Alarm
	members                                          []snapshot.Member
}

// expected makes the numbers of what the server said. The tombstone of the
// compacted revision itself, which only some versions keep, is added.
func (s *said) expected(tombstoneKept bool) counts {
	c := counts{
		revision: s.Revision, compacted: s.CompactRevision, keys: int64(len(s.Keys)), revisions: int64(len(s.History)),
		leases: int64(len(s.Leases)), users: int64(len(s.Auth.Users)), roles: int64(len(s.Auth.Roles)), auth: s.Auth.Enabled,
		kv:     snapshot.KVHash{Algorithm: "etcd-hashkv", Hash: s.HashKV, Revision: s.Revision, CompactRevision: s.CompactRevision},
		alarms: []snapshot.Alarm{}, members: []snapshot.Member{},
	}
	for _, h := range s.History {
		if h.Deleted {
			c.tombstones++
		}
	}
	if tombstoneKept {
		c.tombstones++
		c.revisions++
	}
	for _, l := range s.Leases {
		c.leasedKeys += int64(len(l.Keys))
		c.maxTTL = max(c.maxTTL, l.TTL)
	}
	for _, a := range s.Alarms {
		c.alarms = append(c.alarms, snapshot.Alarm{MemberID: snapshot.ID(a.MemberID), Type: a.Type})
	}
	for _, m := range s.Members {
		c.members = append(c.members, snapshot.Member{ID: snapshot.ID(m.ID), Name: m.Name, Learner: m.Learner, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs})
	}
	byID := func(a, b snapshot.Member) int { return strings.Compare(a.ID.String(), b.ID.String()) }
	slices.SortFunc(c.members, byID)
	return c
}

func sameStatus(t *testing.T, path string, want *said) {
	t.Helper()
	s, err := snapshot.Inspect(context.Background(), path, snapshot.Options{}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	got := counts{
		revision: s.Revision, compacted: s.CompactRevision, keys: s.Keys, revisions: s.Revisions, tombstones: s.Tombstones,
		leases: s.Leases.Count, leasedKeys: s.Leases.Keys, maxTTL: s.Leases.MaxTTLSeconds, users: s.Auth.Users, roles: s.Auth.Roles,
		auth: s.Auth.Enabled, kv: s.Digests.KV, alarms: s.Alarms, members: s.Members,
	}
	slices.SortFunc(got.members, func(a, b snapshot.Member) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	if without, with := want.expected(false), want.expected(true); !reflect.DeepEqual(got, without) && !(want.CompactRevision > 0 && reflect.DeepEqual(got, with)) {
		t.Errorf("status says %+v\nthe server   %+v", got, without)
	}
	if want.Auth.Revision != 0 && s.Auth.Revision != want.Auth.Revision {
		t.Errorf("auth revision %d, the server says %d", s.Auth.Revision, want.Auth.Revision)
	}
	if s.StorageVersion != want.StorageVersion || !strings.HasPrefix(want.Version, strings.TrimSuffix(s.ClusterVersion, "0")) {
		t.Errorf("storage version %q, the server says %q; cluster version %q of a server %s", s.StorageVersion, want.StorageVersion, s.ClusterVersion, want.Version)
	}
}

// sameRecords compares what dbfile reads with each key, each change and each lease.
func sameRecords(t *testing.T, path string, want *said) {
	t.Helper()
	ctx := context.Background()
	f, err := dbfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	hash, err := f.HashKV(ctx)
	if (hash != dbfile.KVHash{Hash: want.HashKV, Revision: want.Revision, CompactRevision: want.CompactRevision}) || err != nil {
		t.Errorf("HashKV says %+v, %v; the server %d", hash, err, want.HashKV)
	}
	live, history := []saidKey{}, []saidKey{}
	leases := []saidLease{}
	scan := &dbfile.Scan{}
	scan.Record = func(r *dbfile.Record) error {
		k := keyOf(r)
		if k.Deleted && k.ModRevision == want.CompactRevision {
			return nil // some versions keep it
		}
		history = append(history, k)
		if scan.Live.Has(r.Index) {
			live = append(live, k)
		}
		return nil
	}
	scan.Other = func(bucket string, key, value []byte) error {
		if bucket != dbfile.BucketLease {
			return nil
		}
		l, err := dbfile.ParseLease(key, value)
		leases = append(leases, saidLease{ID: l.ID, TTL: l.TTL})
		return err
	}
	if err := scan.Run(ctx, f); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(live, func(a, b saidKey) int { return bytes.Compare(a.Key, b.Key) })
	slices.SortFunc(leases, func(a, b saidLease) int { return cmp.Compare(a.ID, b.ID) })
	for i := range leases {
		for _, k := range live {
			if k.Lease == leases[i].ID {
				leases[i].Keys = append(leases[i].Keys, k.Key)
			}
		}
	}
	same(t, "keys", live, want.Keys)
	same(t, "changes", history, want.History)
	same(t, "leases", leases, want.Leases)
}

func keyOf(r *dbfile.Record) saidKey {
	if r.Tombstone {
		return saidKey{Key: bytes.Clone(r.Key), ModRevision: r.Main, Deleted: true}
	}
	sum := sha256.Sum256(r.Value)
	return saidKey{Key: bytes.Clone(r.Key), CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: r.Version, Lease: r.Lease,
		ValueSHA256: hex.EncodeToString(sum[:])}
}

// same compares two lists through their text, in which no list and an empty one,
// and no keys and none, are the same.
func same[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = fmt.Sprintf("%+v", got[i])
		}
		if i < len(want) {
			w = fmt.Sprintf("%+v", want[i])
		}
		if g != w {
			t.Fatalf("%s: number %d is %s\nthe server says %s", what, i, g, w)
		}
	}
}
