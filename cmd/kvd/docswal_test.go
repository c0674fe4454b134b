package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/servertest"
)

// walForDocs writes what the pages about the log look for: three objects that
// were deleted in three ways, and one that is written over and over. An ssh reads on
// the members' hosts.
func walForDocs(ctx context.Context, t *testing.T, c *servertest.Cluster, _ string) []string {
	t.Helper()
	client := c.Client(t)
	kubernetesForDocs(ctx, t, client)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const maps = "/registry/configmaps/shop/"
	for _, name := range []string{"settings", "routes", "flags"} {
		must(client.Put(ctx, maps+name, strings.Repeat("v", 300)))
	}
	got, err := client.Get(ctx, maps+"settings")
	must(got, err)
	must(client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(maps+"settings"), "=", got.Kvs[0].ModRevision)).
		Then(clientv3.OpDelete(maps + "settings")).Else(clientv3.OpGet(maps + "settings")).Commit())
	must(client.Delete(ctx, maps, clientv3.WithPrefix()))
	lease, err := client.Grant(ctx, 3600)
	must(lease, err)
	must(client.Put(ctx, "/registry/events/shop/web.17a0b1c2d3e4f5", "event", clientv3.WithLease(lease.ID)))
	must(client.Revoke(ctx, lease.ID)) // as the leader does when it expires
	for range 300 {
		must(client.Put(ctx, "/registry/example.com/widgets/shop/w1", strings.Repeat("v", 8<<10)))
	}
	must(client.Put(ctx, "/registry/example.com/widgets/shop/w2", strings.Repeat("v", 700<<10)))
	bin := t.TempDir()
	writeProgram(t, filepath.Join(bin, "ssh"), strings.ReplaceAll(sshToRead, "ROOT", c.Root()))
	return []string{inPath(bin)}
}

const sshToRead = `#!/bin/sh
host=ROOT/$1; shift
exec sh -c "$(printf '%s' "$*" | sed "s#/var/lib/etcd#$host/data#g")"
`

// powerLossForDocs kills all members at once and leaves their logs as a power loss
// can: the first one's whole, the second's with a last record of which some sectors
// were never written, the third's with a byte that its disk has changed.
func powerLossForDocs(ctx context.Context, t *testing.T, c *servertest.Cluster, dir string) []string {
	t.Helper()
	client := c.Client(t)
	kubernetesForDocs(ctx, t, client)
	for range 20 {
		if _, err := client.Put(ctx, "/registry/configmaps/default/large", strings.Repeat("v", 4<<10)); err != nil {
			t.Fatal(err)
		}
	}
	c.CheckEqualContent(t) // so that all of them have it
	env := hostsForDocs(t, c)
	tear(t, c.DataDir(1))
	changeByte(t, c.DataDir(2))
	return env
}

// large are the entries of a log that hold a large value, and where the log ends.
func large(t *testing.T, data string) (entries []wal.Record, end wal.Position) {
	t.Helper()
	if err := wal.Records(t.Context(), data, func(r wal.Record) error {
		if r.Type == wal.EntryType && r.Size > 4<<10 {
			r.Data, r.Entry.Data = nil, nil
			entries = append(entries, r)
		}
		end = wal.Position{File: r.File, Offset: r.Offset + r.Size}
		return nil
	}); err != nil || len(entries) < 10 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	return entries, end
}

// tear writes the front of one more record.
func tear(t *testing.T, data string) {
	t.Helper()
	entries, end := large(t, data)
	change(t, data, end, func(segment []byte) {
		from := entries[len(entries)-1].Offset
		copy(segment[end.Offset:], segment[from:from+1000])
	})
}

// changeByte changes one within a value.
func changeByte(t *testing.T, data string) {
	t.Helper()
	entries, _ := large(t, data)
	hurt := entries[len(entries)/2]
	change(t, data, hurt.Position, func(segment []byte) { segment[hurt.Offset+2000] ^= 0x20 })
}

func change(t *testing.T, data string, at wal.Position, f func(segment []byte)) {
	t.Helper()
	path := filepath.Join(data, "member", "wal", at.File)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f(raw)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
