//go:build long

package ops_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// spoil changes the last record of keys in a stopped member's file: it is given the
// record, and returns what takes its place, nil to have it deleted.
func spoil(t *testing.T, path string, change map[string]func(*mvccpb.KeyValue) *mvccpb.KeyValue) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("key"))
		for key, fn := range change {
			var at []byte
			var last mvccpb.KeyValue
			err := b.ForEach(func(rev, raw []byte) error {
				var kv mvccpb.KeyValue
				if err := proto.Unmarshal(raw, &kv); err != nil {
					return err
				}
				if string(kv.Key) == key {
					at = bytes.Clone(rev)
					proto.Reset(&last)
					proto.Merge(&last, &kv)
				}
				return nil
			})
			if err != nil || at == nil {
				return fmt.Errorf("%q: %w", key, err)
			}
			next := fn(&last)
			if next == nil {
				if err := b.Delete(at); err != nil {
					return err
				}
				continue
			}
			raw, err := proto.Marshal(next)
			if err != nil {
				return err
			}
			if err := b.Put(at, raw); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func otherByte(at int) func(*mvccpb.KeyValue) *mvccpb.KeyValue {
	return func(kv *mvccpb.KeyValue) *mvccpb.KeyValue {
		kv.Value[at] ^= 0x40
		return kv
	}
}

// Cases C68 and C70: one member's file was changed behind its back: a byte of a value,
// a record gone, a version. The keys are named, and who is in the minority, whichever
// two are compared; with two changed each in its own way nobody guesses.
func TestDiffMembers(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 64 * mib, keyFmt: "/registry/pods/a/p%03d"}.build(t)
	p.put(t, 300, 100, 200)
	ctx := servertest.Context(t, 2*time.Minute)
	restart := func(i int, change map[string]func(*mvccpb.KeyValue) *mvccpb.KeyValue) {
		if err := p.StopMember(ctx, i); err != nil {
			t.Fatal(err)
		}
		spoil(t, p.DBPath(i), change)
		if err := p.StartMember(ctx, i); err != nil {
			t.Fatal(err)
		}
	}
	restart(1, map[string]func(*mvccpb.KeyValue) *mvccpb.KeyValue{
		p.key(7):  otherByte(17),
		p.key(50): func(*mvccpb.KeyValue) *mvccpb.KeyValue { return nil },
		p.key(99): func(kv *mvccpb.KeyValue) *mvccpb.KeyValue { kv.Version += 3; return kv },
	})
	bad := p.Name(1) + " ("
	got, said := p.diffMembers(t, 0, 1)
	// The version that a server answers with is counted anew as it starts; only the file has it.
	if len(got) < 2 || got[p.key(7)] != "changed a" || !strings.HasSuffix(got[p.key(50)], " a") {
		t.Errorf("m1 and m2: %v", got)
	}
	if !strings.Contains(said, bad) || strings.Contains(said, p.Name(0)+" (") || strings.Contains(said, "do not guess") {
		t.Errorf("m1 and m2: %s", said)
	}
	if got, verdict := p.diffMembers(t, 1, 2); got[p.key(7)] != "changed b" || !strings.Contains(verdict, bad) {
		t.Errorf("m2 and m3: %v, %s", got, verdict)
	}
	if got, verdict := p.diffMembers(t, 0, 2); len(got) != 0 || verdict != "" {
		t.Errorf("m1 and m3: %v, %s", got, verdict)
	}
	verdict, same := p.hashes(t)
	for _, group := range strings.Split(verdict, "; ") {
		if same || strings.HasSuffix(group, "(the majority)") == strings.Contains(group, bad) {
			t.Errorf("%v: %s", same, verdict)
		}
	}
	restart(2, map[string]func(*mvccpb.KeyValue) *mvccpb.KeyValue{p.key(7): otherByte(3)})
	if got, verdict := p.diffMembers(t, 0, 1); got[p.key(7)] != "changed none" || !strings.Contains(verdict, "no value has a majority in 1: do not guess") {
		t.Errorf("two changed: %v, %s", got, verdict)
	}
	if verdict, same := p.hashes(t); same || !strings.Contains(verdict, "do not guess") {
		t.Errorf("two changed: %s", verdict)
	}
}

// Case C68: the newest record is gone from one member's file. At the revision that all
// members have nothing differs, by key or by hash, and yet it is told.
func TestHeadsLost(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 64 * mib, keyFmt: "/registry/pods/a/p%03d"}.build(t)
	p.put(t, 30, 1, 200)
	ctx := servertest.Context(t, time.Minute)
	heads, err := ops.ReadHeads(ctx, p.KVD, p.view(t))
	if err != nil || len(heads.Lost) > 0 {
		t.Fatalf("before: %+v, %v", heads, err)
	}
	var newest string
	var at int64
	resp, err := p.Client.Get(ctx, "/registry/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		if kv.ModRevision > at {
			newest, at = string(kv.Key), kv.ModRevision
		}
	}
	if err := p.StopMember(ctx, 1); err != nil {
		t.Fatal(err)
	}
	spoil(t, p.DBPath(1), map[string]func(*mvccpb.KeyValue) *mvccpb.KeyValue{newest: func(*mvccpb.KeyValue) *mvccpb.KeyValue { return nil }})
	if err := p.StartMember(ctx, 1); err != nil {
		t.Fatal(err)
	}
	view, err := ops.WaitHealthy(ctx, p.KVD, 30*time.Second, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if heads, err = ops.ReadHeads(ctx, p.KVD, view); err != nil || len(heads.Lost) != 1 || !strings.HasPrefix(heads.Lost[0], p.Name(1)+" (") {
		t.Errorf("%+v, %v", heads, err)
	}
}

// diffMembers compares two members and returns what is said of each key, and the verdict.
func (p *place) diffMembers(t *testing.T, a, b int) (map[string]string, string) {
	t.Helper()
	ctx := servertest.Context(t, time.Minute)
	view, err := ops.WaitHealthy(ctx, p.KVD, 30*time.Second, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	heads, err := ops.ReadHeads(ctx, p.KVD, view)
	if err != nil {
		t.Fatal(err)
	}
	var sides [2]diff.Side
	var members [2]cluster.Member
	for i, n := range []int{a, b} {
		if members[i], err = view.FindMember(p.Name(n)); err != nil {
			t.Fatal(err)
		}
		mc, err := p.KVD.Member(members[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		sides[i] = diff.Side{Source: keyspace.OpenLive(mc, keyspace.LiveOptions{}), Rev: heads.Pinned}
	}
	jury, err := ops.NewJury(p.KVD, view, members[0], members[1], heads.Pinned)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	_, err = diff.Run(ctx, sides[0], sides[1], diff.Options{Layout: keys.Default()}, func(e *diff.Entry) error {
		err := jury.Ask(ctx, e)
		got[string(e.Key)] = fmt.Sprintf("%s %s", e.Kind, e.Majority)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, jury.Verdict()
}

func (p *place) hashes(t *testing.T) (string, bool) {
	t.Helper()
	ctx := servertest.Context(t, time.Minute)
	view := p.view(t)
	heads, err := ops.ReadHeads(ctx, p.KVD, view)
	if err != nil {
		t.Fatal(err)
	}
	warned := 0
	hashes, err := ops.HashMembers(ctx, p.KVD, view, heads.Pinned, progress.Func(func(e progress.Event) {
		if e.Warning {
			warned++
		}
	}))
	if err != nil || warned != 3 {
		t.Fatalf("%v, %d warnings", err, warned)
	}
	verdict, same, _ := ops.JudgeHashes(hashes, 3)
	return verdict, same
}
