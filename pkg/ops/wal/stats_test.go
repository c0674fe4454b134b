package wal

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// Everything that is written is counted once where it belongs: by type, prefix,
// namespace, key, lease, user and segment.
func TestStats(t *testing.T) {
	l := newLog(t)
	alice := put("/registry/pods/ns1/a", "1234", 7)
	alice.Header = &pb.RequestHeader{ID: 1, Username: "alice"}
	requests := []*pb.InternalRaftRequest{
		alice,
		put("/registry/pods/ns1/b", "1234567890", 0),
		put("/registry/minions/n1", "x", 7),
		del("/registry/pods/ns2/", "/registry/pods/ns20"),
		txn(true, put("/registry/pods/ns1/a", "12", 8), txn(true, nil, put("plain", "x", 0))),
		put("/other/x/y", strings.Repeat("v", 70_000), 0),
		put("\xff/y", "", 0),
		{ID: 1, Range: &pb.RangeRequest{Key: []byte("/registry/pods/ns1/a")}},
	}
	for i, r := range requests {
		l.add(uint64(i), r)
	}
	l.term, l.next = 3, 7
	l.add(7, put("\xff/y", "", 0), requests[7]) // in the place of the last two
	o := DefaultStatsOptions()
	s, err := GatherStats(t.Context(), l.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	size := func(m proto.Message) int64 { return int64(proto.Size(m)) }
	pod := size(requests[0].Put) + size(requests[4].Txn.Success[0].GetRequestPut())
	if s.Entries != 10 || s.Overwritten != 2 || s.First != (EntryID{1, 2}) || s.Last != (EntryID{8, 3}) || s.Commit != 7 {
		t.Errorf("%+v", s)
	}
	for _, tc := range []struct{ name, got, want string }{
		{"types", amounts(s.Types, func(x TypeAmount) (string, Amount) { return string(x.Type), Amount{Count: x.Count} }), "put 6 0, range 2 0, txn 1 0, delete_range 1 0"},
		{"prefixes", amounts(s.Prefixes, func(x PrefixAmount) (string, Amount) { return string(x.Prefix) + x.Resource, x.Amount }),
			fmt.Sprintf("/other/ 1 %d, /registry/pods/pods 4 %d, /registry/minions/nodes 1 %d, \xff/ 2 %d,  1 %d", size(requests[5].Put),
				pod+size(requests[1].Put)+size(requests[3].DeleteRange), size(requests[2].Put), 2*size(requests[6].Put), 10)},
		{"namespaces", amounts(s.Namespaces, func(x NameAmount) (string, Amount) { return x.Name, x.Amount }), fmt.Sprintf("ns1 3 %d", pod+size(requests[1].Put))},
		{"leases", amounts(s.Leases, func(x LeaseAmount) (string, Amount) { return x.Lease.String(), Amount{Count: x.Count} }), "7 2 0, 8 1 0"},
		{"users", amounts(s.Users, func(x NameAmount) (string, Amount) { return x.Name, Amount{Count: x.Count} }), "alice 1 0"},
		{"the two first keys", amounts(s.Keys[:2], func(x KeyAmount) (string, Amount) { return string(x.Key), x.Amount }),
			fmt.Sprintf("/other/x/y 1 %d, /registry/pods/ns1/a 2 %d", size(requests[5].Put), pod)},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %q\nwant %q", tc.name, tc.got, tc.want)
		}
	}
	if b := s.Biggest[0]; b.Index != 6 || string(b.Key) != "/other/x/y" || b.Writes != 1 || b.Bytes < 70_000 || s.Biggest[1].Writes != 2 {
		t.Errorf("%+v", s.Biggest)
	}
	var entries, bytes int64
	for _, seg := range s.Segments {
		entries, bytes = entries+seg.Count, bytes+seg.Bytes
	}
	if entries != s.Entries || bytes != s.Bytes || len(s.Segments) < 2 {
		t.Errorf("segments: %+v", s.Segments)
	}
	o.Top = 1
	s, _ = GatherStats(t.Context(), l.dir, o)
	raw, err := json.Marshal(s)
	if err != nil || len(s.Keys) != 1 || len(s.Biggest) != 1 || len(s.Types) != 4 || !strings.Contains(string(raw), `"keys":[{"key":"/other/x/y","count":1,`) {
		t.Errorf("%s, %v", raw, err)
	}
}

func amounts[T any](rows []T, of func(T) (string, Amount)) string {
	out := make([]string, 0, len(rows))
	for _, r := range rows {
		name, a := of(r)
		out = append(out, fmt.Sprintf("%s %d %d", name, a.Count, a.Bytes))
	}
	return strings.Join(out, ", ")
}

// Of more keys than are kept those that are written most are still told, with
// what may be missing.
func TestStatsOfManyKeys(t *testing.T) {
	const n = 3 * maxCounted
	counted := func() (c *counter, hot Amount) {
		c = newCounter(DefaultStatsOptions())
		for i := range n {
			key := fmt.Sprintf("/registry/pods/ns/p%d", i)
			if i%20 == 0 {
				key = "/registry/pods/ns/hot"
				hot.add(40)
			}
			c.op(&Op{Op: PutType, Key: []byte(key), Bytes: 40, Lease: LeaseID(i)}, &writing{})
		}
		return c, hot
	}
	c, want := counted()
	s := c.finish()
	if again, _ := counted(); !reflect.DeepEqual(s, again.finish()) {
		t.Errorf("the same log was told as %+v, and now as %+v", s, again.finish())
	}
	if k := s.Keys[0]; string(k.Key) != "/registry/pods/ns/hot" || k.Count != want.Count || k.Bytes != want.Bytes {
		t.Errorf("%+v, want %+v", k, want)
	}
	if m := s.KeysUncounted; m.Count < 1 || m.Count > 10 || m.Bytes != 40*m.Count || s.LeasesUncounted.Count < 1 {
		t.Errorf("uncounted %+v, %+v", m, s.LeasesUncounted)
	}
	if s.Prefixes[0].Count != n || s.Namespaces[0].Count != n || c.keys.n > maxCounted {
		t.Errorf("%+v", s.Prefixes)
	}
	for i := range 3 * maxGroups {
		c.op(&Op{Op: PutType, Key: fmt.Appendf(nil, "/%d/x", i), Bytes: 1}, &writing{})
	}
	if got := c.prefixes.of[others]; len(c.prefixes.of) != maxGroups+1 || got == nil || got.Count != 2*maxGroups+1 {
		t.Errorf("%d groups, others %+v", len(c.prefixes.of), got)
	}
}

// Damage ends the counting with its place; what stands before it is told.
func TestStatsOfDamage(t *testing.T) {
	l := newLog(t)
	for i := range 10 {
		l.add(uint64(i), put("k", "v", 0))
	}
	var all []Record
	if err := Records(t.Context(), l.dir, func(r Record) error { all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	last := all[len(all)-2]
	if err := os.Truncate(filepath.Join(l.dir, last.File), last.Offset+last.Size-1); err != nil {
		t.Fatal(err)
	}
	s, err := GatherStats(t.Context(), l.dir, DefaultStatsOptions())
	if err != nil || s.Torn == nil || s.Torn.Position != last.Position || s.Entries != 9 {
		t.Errorf("%+v, %v", s, err)
	}
	poke(t, l.dir, all[8].File, all[8].Offset+20, 1)
	s, err = GatherStats(t.Context(), l.dir, DefaultStatsOptions())
	if err == nil || s == nil || s.Torn != nil || s.Entries == 0 || s.Entries > 4 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = GatherStats(t.Context(), t.TempDir(), DefaultStatsOptions()); err == nil || s != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// What a key is counted under is the same whether or not another key of its folder
// was seen before, and whatever that was.
func TestStatsFolders(t *testing.T) {
	names := []string{"", "a", "a.b", "specs", "x\xff"}
	for _, dir := range []string{"", "/", "//", "/registry/", "/registry/pods/", "/registry/pods/ns/", "/registry/pods/ns/x/", "/registry/services/", "/registry/services/specs/",
		"/registry/services/specs/ns/", "/registry/minions/", "/registry/minions/x/", "/registry/example.com/", "/registry/example.com/widgets/", "/registry/example.com/widgets/ns/", "other/", "\x00/"} {
		shared := newCounter(DefaultStatsOptions())
		for range 2 {
			for _, name := range names {
				alone := newCounter(DefaultStatsOptions())
				for _, c := range []*counter{shared, alone} {
					c.op(&Op{Op: PutType, Key: []byte(dir + name), Bytes: 7}, &writing{})
				}
				got, _ := shared.keys.get([]byte(dir + name))
				want, _ := alone.keys.get([]byte(dir + name))
				place := func(c *counter, f *folder) (prefix, namespace string) {
					for n, p := range c.prefixes.of {
						if p == f.prefix {
							prefix = n
						}
					}
					for n, a := range c.namespaces.of {
						if a == f.namespace {
							namespace = n
						}
					}
					return prefix, namespace
				}
				gotPrefix, gotSpace := place(shared, got.of)
				wantPrefix, wantSpace := place(alone, want.of)
				if gotPrefix != wantPrefix || gotSpace != wantSpace {
					t.Errorf("%q: %q and namespace %q, want %q and %q", dir+name, gotPrefix, gotSpace, wantPrefix, wantSpace)
				}
			}
		}
	}
}

// A list is a list, also where nothing is in it: `jq '.leases[]'` fails at null.
func TestStatsListsAreNeverNull(t *testing.T) {
	for name, requests := range map[string][]*pb.InternalRaftRequest{"nothing": nil, "a put without a lease": {put("a", "1", 0)}} {
		l := newLog(t)
		for i, r := range requests {
			l.add(uint64(i), r)
		}
		s, err := GatherStats(t.Context(), l.dir, DefaultStatsOptions())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		raw, err := json.Marshal(s)
		if err != nil || strings.Contains(string(raw), "null") {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
	}
}
