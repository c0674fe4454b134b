//go:build long

package wal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// The logs of older servers are read as well as those of today's.
func TestDumpOfOldServers(t *testing.T) {
	for version, own := range map[string][]string{
		"3.4": {"noop", "v2"},
		"3.5": {"noop", "v2"},
		"3.6": {"noop", "cluster_member_attr_set", "cluster_version_set"},
	} {
		t.Run(version, func(t *testing.T) {
			c := servertest.Start(t, servertest.Options{Options: local.Options{Command: local.Command{Path: servertest.OldServer(t, version)}}})
			s := &sender{t: t, c: c}
			client := c.Client(t)
			s.keys(client)
			s.members(client)
			s.auth(client)
			if err := c.StopMember(servertest.Context(t, time.Minute), 0); err != nil {
				t.Fatal(err)
			}
			s.check(c.DataDir(0), own...)
		})
	}
}

// A log that a server is writing to as fast as it can is read a hundred times:
// each time without an error, from its first entry on, and no shorter than before.
// The one who follows it sees every entry once.
func TestDumpUnderLoad(t *testing.T) {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	client := c.Client(t)
	ctx, cancel := context.WithCancel(servertest.Context(t, 5*time.Minute))
	defer cancel()
	stopped := make(chan error, 9)
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				if _, err := client.Put(ctx, fmt.Sprintf("/k/%d", w), strings.Repeat("v", 1<<(i%15))); err != nil {
					stopped <- nil // told to
					return
				}
			}
		}()
	}
	followed := uint64(0)
	go func() {
		o := DefaultDumpOptions()
		o.Follow, o.Poll = true, 5*time.Millisecond
		_, err := Dump(ctx, c.DataDir(0), o, func(l *Line) error {
			if l.Index != followed+1 {
				return fmt.Errorf("%d follows %d", l.Index, followed)
			}
			followed = l.Index
			return nil
		})
		stopped <- err
	}()
	last := uint64(0)
	for range 100 {
		at := uint64(0)
		sum, err := Dump(ctx, c.DataDir(0), DefaultDumpOptions(), func(l *Line) error {
			if at++; l.Index != at || l.State == Overwritten {
				return fmt.Errorf("%d where %d was to be: %s", l.Index, at, l.State)
			}
			return nil
		})
		if err != nil || at < last {
			t.Fatalf("%v; %d entries, %d before", err, at, last)
		}
		last = at
		s, err := GatherStats(ctx, c.DataDir(0), DefaultStatsOptions())
		if err != nil || s.Entries < sum.Entries {
			t.Fatalf("%v: %+v", err, s)
		}
	}
	cancel()
	for range 9 {
		if err := <-stopped; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
	if last < 100 || followed < last {
		t.Errorf("%d entries, %d followed", last, followed)
	}
	t.Logf("%d entries, %d followed", last, followed)
}

// Who deleted a key: by name, by a range with it, by either branch of a transaction,
// or by the end of a lease that nobody revoked by hand.
func TestWhoDeletedAKey(t *testing.T) {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	client := c.Client(t)
	ctx := servertest.Context(t, time.Minute)
	s := &sender{t: t, c: c}
	l, err := client.Grant(ctx, 1)
	s.must(err)
	_, err = client.Put(ctx, "/a/1", "v", clientv3.WithLease(l.ID))
	s.must(err)
	for i := 2; i < 5; i++ {
		_, err = client.Put(ctx, fmt.Sprintf("/a/%d", i), "v")
		s.must(err)
	}
	for found := int64(1); found > 0; { // until the lease has expired
		r, err := client.Get(ctx, "/a/1")
		s.must(err)
		found = r.Count
	}
	_, err = client.Delete(ctx, "/a/2", clientv3.WithRange("/a/3"))
	s.must(err)
	_, err = client.Txn(ctx).If(clientv3.Compare(clientv3.Version("/a/3"), "=", 9)).Then(clientv3.OpDelete("/a/3")).Else(clientv3.OpDelete("/a/4")).Commit()
	s.must(err)
	_, err = client.Compact(ctx, 5)
	s.must(err)
	for key, want := range map[string]string{
		"/a/1": "put lease_revoke:/a/1", "/a/2": "put delete_range", "/a/3": "put txn?branch", "/a/4": "put txn?branch", "/a/5": "",
	} {
		lines, _, err := dump(t, c.DataDir(0), func(o *DumpOptions) { o.Keys = []string{key} })
		s.must(err)
		var got []string
		for _, raw := range lines {
			var l struct {
				Type    string
				Effect  struct{ Cause string }
				Request struct {
					Held []struct {
						Key  string
						Sure bool
					}
				}
			}
			s.must(json.Unmarshal([]byte(raw), &l))
			if l.Effect.Cause != "" {
				l.Type += "?" + l.Effect.Cause
			}
			for _, h := range l.Request.Held {
				if h.Sure {
					l.Type += ":" + h.Key
				}
			}
			got = append(got, l.Type)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", key, got, want)
		}
	}
}
