package drill

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/wal"
)

// logged is a write of the load in a member's log.
type logged struct {
	index uint64
	key   string
}

// loggedWrites reads the load's writes from a log, in order. Entries that a later
// record replaces are left out.
func loggedWrites(ctx context.Context, dir string) ([]logged, error) {
	var out []logged
	err := wal.Records(ctx, dir, func(r wal.Record) error {
		if r.Type != wal.EntryType {
			return nil
		}
		for len(out) > 0 && out[len(out)-1].index >= r.Entry.Index {
			out = out[:len(out)-1]
		}
		var req etcdserverpb.InternalRaftRequest
		if r.Entry.Type != 0 || proto.Unmarshal(r.Entry.Data, &req) != nil || req.Put == nil {
			return nil // a change of members, a leader's first entry, another request
		}
		out = append(out, logged{r.Entry.Index, string(req.Put.Key)})
		return nil
	})
	var torn *wal.Damage
	if errors.As(err, &torn) && torn.Repaired() {
		return out, nil // as it will be after the start
	}
	return out, err
}

// readFiles looks at a killed member's files. Nothing is running on them.
func readFiles(ctx context.Context, name, dataDir, dbPath string, acked map[string]int64) (CrashFiles, []logged, error) {
	f := CrashFiles{Member: name}
	log, err := wal.Inspect(ctx, dataDir)
	if err != nil {
		return f, nil, err
	}
	meta, err := readMeta(ctx, dbPath)
	if err != nil {
		return f, nil, err
	}
	f.ConsistentIndex, f.ConsistentTerm = meta.ConsistentIndex, meta.Term
	f.LastIndex, f.LastTerm, f.Commit, f.WALBytes, f.Torn = log.Last.Index, log.Last.Term, log.State.Commit, log.Used, log.Torn
	f.Behind = f.LastIndex - min(f.LastIndex, f.ConsistentIndex)
	db := wal.Backend{ConsistentIndex: meta.ConsistentIndex, Term: meta.Term}
	if c := meta.ConfState; c != nil {
		for _, id := range append(c.Voters, c.Learners...) {
			db.Members = append(db.Members, wal.ID(id))
		}
	}
	f.Mismatches = append([]wal.Mismatch{}, wal.Judge(&log, db)...)

	writes, err := loggedWrites(ctx, dataDir)
	if err != nil {
		return f, nil, err
	}
	f.AckedNowhere = int64(len(acked))
	for i, w := range writes {
		_, answered := acked[w.key]
		if answered {
			f.AckedNowhere--
		}
		if w.index <= f.ConsistentIndex {
			f.WritesInDB = int64(i) + 1
			continue
		}
		f.WritesInLog++
		if answered {
			f.AckedInLog++
		}
	}
	return f, writes[f.WritesInDB:], nil
}

func readMeta(ctx context.Context, path string) (dbfile.Meta, error) {
	file, err := dbfile.Open(path)
	if err != nil {
		return dbfile.Meta{}, err
	}
	defer file.Close()
	return file.Meta(ctx)
}
