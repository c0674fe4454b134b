package server

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// dbPath is where a member has its database.
func dbPath(cfg *embed.Config) string { return filepath.Join(cfg.Dir, "member", "snap", "db") }

// walPath is where a member has its write-ahead log.
func walPath(cfg *embed.Config) string {
	if cfg.WalDir != "" {
		return cfg.WalDir
	}
	return filepath.Join(cfg.Dir, "member", "wal")
}

// checkWAL refuses to start a member whose database is there and whose write-ahead
// log is not. etcd takes it for one that has never run, and begins a new log at
// index 1 on top of the old database, without a word (bootstrap in server/v3/
// etcdserver/bootstrap.go). It then skips every entry up to the database's
// consistent index (shouldApplyV3 in server.go), the one included with which it
// joins, so that it listens and never serves; as one member of several it has also
// forgotten what it had acknowledged.
//
// A member that was killed in the first moments of its life has a database, too,
// and no log. Nothing was applied to it then, for entries come from a log: its
// consistent index is 0, and it may start.
func checkWAL(ctx context.Context, cfg *embed.Config) error {
	db, dir, usual := dbPath(cfg), walPath(cfg), filepath.Join(cfg.Dir, "member", "wal")
	if _, err := os.Stat(db); err != nil || hasWAL(dir) {
		return nil //nolint:nilerr // whatever is wrong with the file, etcd says it better
	}
	if hasWAL(usual) {
		return &fault.Error{Kind: fault.Usage, Cause: "wal_dir", Op: opServe, Subject: dir,
			Msg:  "no write-ahead log there, but there is one in " + usual + ", where this member has had it",
			Hint: "leave --wal-dir out; or, to move the log, stop the member and move the files"}
	}
	applied, err := consistentIndex(ctx, db)
	if err != nil || applied == 0 {
		return nil //nolint:nilerr // as above
	}
	return &fault.Error{Kind: fault.Damage, Cause: "wal_missing", Op: opServe, Subject: dir,
		Msg: fmt.Sprintf("no write-ahead log there, but %s has entries up to index %d: a new log would begin at 1, and nothing would be served", db, applied),
		Hint: "where this member has its log elsewhere, give --wal-dir. If the log is lost, keep a copy of the data directory; one of several members: kvd member replace " +
			cfg.Name + ", on a member that is well; the only one: kvd snapshot restore " + db + " --skip-hash-check --data-dir NEW"}
}

func consistentIndex(ctx context.Context, db string) (index uint64, err error) {
	f, err := dbfile.Open(db)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	m, err := f.Meta(ctx)
	return m.ConsistentIndex, err
}

// hasWAL looks for segments. The folder may have in its name what a pattern has.
func hasWAL(dir string) bool {
	files, err := fs.Glob(os.DirFS(dir), "*.wal")
	return err == nil && len(files) > 0
}
