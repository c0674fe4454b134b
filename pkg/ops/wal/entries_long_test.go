//go:build long

package wal

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// The logs of servers of every version, which have been sent every kind of request
// and so many large values that they have several segments, are read as etcd's own
// decoder reads them: record for record, entry for entry, and of each entry the
// request. A listing and the counts are of just these.
func TestEntriesOfServers(t *testing.T) {
	for _, version := range []string{"3.4", "3.5", "3.6", "3.7"} {
		t.Run(version, func(t *testing.T) {
			o := local.Options{}
			if version != "3.7" {
				o.Command = local.Command{Path: servertest.OldServer(t, version)}
			}
			c := servertest.Start(t, servertest.Options{Options: o})
			s := &sender{t: t, c: c}
			client := c.Client(t)
			s.keys(client)
			s.members(client)
			s.auth(client)
			for i := range 100 {
				_, err := client.Put(servertest.Context(t, time.Minute), fmt.Sprintf("/large/%d\xff\x00", i), strings.Repeat("\x00\xffv", 1400<<10/3), clientv3.WithPrevKV())
				s.must(err)
			}
			s.must(c.StopMember(servertest.Context(t, time.Minute), 0))
			entries := sameEntries(t, c.DataDir(0))
			l, err := List(t.Context(), c.DataDir(0))
			if err != nil || l.Err() != nil || len(l.Segments) < 2 || l.Entries != entries {
				t.Errorf("%d segments, %d entries, %v, %v", len(l.Segments), l.Entries, err, l.Err())
			}
			stats, err := GatherStats(t.Context(), c.DataDir(0), DefaultStatsOptions())
			if err != nil || stats.Entries != entries || string(stats.Prefixes[0].Prefix) != "/large/" || stats.Prefixes[0].Count != 100 {
				t.Errorf("%+v, %v", stats, err)
			}
		})
	}
}

// sameEntries compares a log with what etcd's decoder and its messages make of it, and
// returns how many entries it has.
func sameEntries(t *testing.T, data string) (entries int64) {
	t.Helper()
	dir := filepath.Join(data, "member", "wal")
	segments := load(t, dir)
	if said := disagree(segments...); said != "" {
		t.Error(said)
	}
	records, _ := byEtcd(segments...)
	types := map[RequestType]int{}
	n := 0
	if err := Records(t.Context(), dir, func(r Record) error {
		want := records[n]
		if n++; r.Type != EntryType {
			return nil
		}
		entries++
		var e raftpb.Entry
		if err := proto.Unmarshal([]byte(want.data), &e); err != nil {
			return err
		}
		if int32(e.GetType()) != r.Entry.Type || e.GetTerm() != r.Entry.Term || e.GetIndex() != r.Entry.Index || !bytes.Equal(e.Data, r.Entry.Data) {
			t.Errorf("entry %d of term %d differs: %d of term %d", e.GetIndex(), e.GetTerm(), r.Entry.Index, r.Entry.Term)
		}
		var q Request
		q.Decode(r.Entry)
		types[q.Type]++
		if r.Entry.Type == 0 {
			if said := differs(&q, e.Data); said != "" {
				t.Errorf("entry %d: %.600s", e.GetIndex(), said)
			}
		}
		return nil
	}); err != nil || n != len(records) || types[UndecodedType]+types[UnknownType] > 0 || len(types) < 20 {
		t.Errorf("%d records of %d, %v, %v", n, len(records), types, err)
	}
	return entries
}
