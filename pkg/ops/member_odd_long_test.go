//go:build long

package ops_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/servertest"
)

// A voter that was added and never started is replaced like any other, by its ID
// and with a name for the new one; where it has cost the quorum, nothing can.
func TestMemberReplaceNeverStarted(t *testing.T) {
	for name, tc := range map[string]struct {
		world
		code int
	}{
		"three members":        {world: world{members: 3}},
		"three, mTLS and auth": {world: world{members: 3, secure: true}},
		"five, auth":           {world: world{members: 5, auth: true}},
		"one member C76a":      {world: world{members: 1}, code: 4},
	} {
		t.Run(name, func(t *testing.T) {
			tc.quota, tc.keyFmt = mebi64, "k%d"
			d := newDance(t, tc.build(t))
			ctx := servertest.Context(t, time.Minute)
			to, err := d.Reserve()
			if err != nil {
				t.Fatal(err)
			}
			d.aim(to)
			id := addVoter(ctx, t, d.Client, d.PeerURL(to))
			code, out, said := d.run(t, append(d.replaceArgs(cluster.FormatID(id), to, to), "--new-name", d.Name(to), "--client-urls", d.Endpoint(to))...)
			if code != tc.code {
				t.Fatalf("exit %d, want %d\n%s\n%s", code, tc.code, out, said)
			}
			if tc.code != 0 {
				if !strings.Contains(said, "NO QUORUM: 1 of 2 voters answer") || !strings.Contains(said, "never started") {
					t.Errorf("said %s", said)
				}
				d.Forget(to)
				return
			}
			d.asItShould(t, tc.members+1, to, id)
			d.nothingLost(t, to)
		})
	}
}

// addVoter adds a voter as soon as etcd takes one, which it does once its members
// have been connected for 5 s.
func addVoter(ctx context.Context, t *testing.T, client *clientv3.Client, url string) uint64 {
	t.Helper()
	for {
		added, err := client.MemberAdd(ctx, []string{url})
		if err == nil {
			return added.Member.ID
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

// C76 (b): a member of long ago in one member's list only.
func TestMemberListsDiffer(t *testing.T) {
	for name, w := range map[string]world{
		"three members":        {members: 3},
		"three, mTLS and auth": {members: 3, secure: true},
		"five members":         {members: 5},
	} {
		t.Run(name, func(t *testing.T) {
			w.quota, w.keyFmt = mebi64, "k%d"
			p := w.build(t)
			odd := (p.Leader(t) + 1) % w.members
			ctx := servertest.Context(t, time.Minute)
			if err := p.StopMember(ctx, odd); err != nil {
				t.Fatal(err)
			}
			zombie := membership.Member{ID: 0xdead, RaftAttributes: membership.RaftAttributes{PeerURLs: []string{"http://127.0.0.1:1"}},
				Attributes: membership.Attributes{Name: "zombie", ClientURLs: []string{"http://127.0.0.1:2"}}}
			insertMember(t, p.DBPath(odd), zombie)
			if err := p.StartMember(ctx, odd); err != nil {
				t.Fatal(err)
			}
			view := p.view(t)
			var differ []ops.MemberFinding
			for _, f := range ops.ListMembers(ctx, p.KVD, view).Findings {
				if f.Cause == "lists_differ" {
					differ = append(differ, f)
				}
			}
			// Each list is compared with the first: the odd one differs from that, or all others do.
			want := 1
			if odd == 0 {
				want = w.members - 1
			}
			if len(differ) != want {
				t.Fatalf("%d findings, want %d: %+v", len(differ), want, differ)
			}
			for _, f := range differ {
				if !strings.Contains(f.Message, p.Name(odd)+" (") || !strings.Contains(f.Message, "has zombie (dead)") {
					t.Errorf("%s: %s", filepath.Base(p.DBPath(odd)), f.Message)
				}
			}
		})
	}
}

// insertMember writes a member into the bucket "members" of a stopped member's file.
func insertMember(t *testing.T, path string, m membership.Member) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	value, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("members")).Put([]byte(m.ID.String()), value)
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
