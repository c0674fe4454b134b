package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// Options of Inspect and Verify.
type Options struct {
	// Live reads a file although a running server holds it.
	Live bool
	// SpoolDir is where the content of a compressed file is unpacked; empty is
	// the system's folder for temporary files.
	SpoolDir string
}

// maxDamages is how many pieces of damage are kept; the rest is counted.
const maxDamages = 200

// maxListed is how many members and alarms are listed: far more than there can
// be in a file that is whole.
const maxListed = 1000

// examination is what one look at a file found: facts, no judgement.
type examination struct {
	path    string
	size    int64
	header  dbfile.Header
	data    int64 // bytes that the pages have according to the meta page
	hashes  hashes
	scan    dbfile.Scan
	damages []*dbfile.Damage
	damaged int64 // how many there are, with those that are not kept
	// inconsistent counts records that decode and contradict their revision.
	inconsistent      int64
	firstInconsistent string
	// gaps counts places in the history where revisions are missing.
	gaps       int64
	firstGap   string
	last       dbfile.Revision // of the record before
	status     Status
	live       bool
	changed    bool // a server wrote to it while it was read
	content    content
	manifest   *Manifest // that beside the file, where it is of this one
	kubernetes bool      // there are keys that only an API server writes
	k3s        bool      // and beside them those of k3s and RKE2
	openshift  bool      // those of OpenShift's API servers, which have prefixes of their own
	terminal   bool      // a terminal has put a carriage return before each newline
	leases     leaseUse
}

// errUnreadable is wrapped by errors of the disk.
var errUnreadable = errors.New("the file cannot be read")

// examine reads a whole file: its bytes for the hashes in one thread, its pages in
// another. Where the bytes were hashed already, on their way into the file, they
// are not read again.
func examine(ctx context.Context, f *dbfile.File, hashed *hashing, op string, sink progress.Sink) (*examination, error) {
	e := &examination{path: f.Name(), size: f.Size(), header: f.Header(), data: f.DataSize()}
	holder, live := f.Live()
	e.live = live
	e.status = Status{File: e.path, SizeBytes: e.size, Alarms: []Alarm{}, Members: []Member{}, Buckets: []string{}}
	if live {
		e.status.Live = holder.String()
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if hashed != nil && hashed.at == e.size && hashed.data == e.data {
			e.hashes, err = hashed.end(f)
		} else {
			e.hashes, err = hashFile(gctx, f, op, sink)
		}
		return err
	})
	g.Go(func() error { return e.read(gctx, f) })
	if err := g.Wait(); err != nil {
		var known *fault.Error
		if ctx.Err() != nil || errors.As(err, &known) {
			return nil, err
		}
		return nil, &fault.Error{Kind: fault.Unavailable, Cause: "unreadable_file", Op: op, Subject: e.path, Err: fmt.Errorf("%w: %w", errUnreadable, err)}
	}
	e.finish()
	e.terminal = e.damaged > 0 && f.ThroughTerminal()
	if live {
		e.changed = f.Changed()
	}
	return e, nil
}

// read scans all pages.
func (e *examination) read(ctx context.Context, f *dbfile.File) error {
	e.scan = dbfile.Scan{Record: e.record, Other: e.other, Damage: e.damage}
	return e.scan.Run(ctx, f)
}

func (e *examination) damage(d *dbfile.Damage) error {
	e.damaged++
	if len(e.damages) < maxDamages {
		e.damages = append(e.damages, d)
	}
	return nil
}

// record counts one record of the bucket "key", and checks that it agrees with
// its revision: a put has its own as the last one that changed it, a tombstone has
// nothing but its key.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/mvcc/kvstore_txn.go (put, delete).
func (e *examination) record(r *dbfile.Record) error {
	s := &e.status
	e.content.record(r)
	e.follow(r)
	s.Revisions++
	size := int64(len(r.RawKey) + len(r.RawValue))
	live := e.scan.Live.Has(r.Index)
	if live {
		s.LiveBytes += size
	} else {
		s.HistoryBytes += size
	}
	switch {
	case len(r.Key) == 0:
		// A restore with a higher revision writes one empty record there.
		if s.RevisionBumps++; len(r.RawValue) != 0 {
			e.contradicts(r, "has no key")
		}
		return nil
	case r.Tombstone:
		s.Tombstones++
		return nil
	case live:
		s.Keys++
		e.kubernetes = e.kubernetes || bytes.HasPrefix(r.Key, []byte("/registry/"))
		e.k3s = e.k3s || bytes.HasPrefix(r.Key, []byte("/bootstrap/"))
		e.openshift = e.openshift || bytes.HasPrefix(r.Key, []byte("/openshift.io/"))
		if r.Lease != 0 {
			s.Leases.Keys++
			e.leases.use(r.Lease)
		}
	}
	switch {
	case r.ModRevision != r.Main:
		e.contradicts(r, fmt.Sprintf("says that revision %d changed it", r.ModRevision))
	case r.CreateRevision < 1 || r.CreateRevision > r.Main || r.Version < 1:
		e.contradicts(r, fmt.Sprintf("says that it is version %d, created at revision %d", r.Version, r.CreateRevision))
	}
	return nil
}

// follow checks that no revision is missing: above the compacted one each follows
// the one before, and so do the changes in it. Only the empty record that a
// restore with a higher revision writes leaves revisions out. Pages can be whole
// and in order, and some of them from another moment than the others.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/mvcc/kvstore_txn.go (End, put, delete).
func (e *examination) follow(r *dbfile.Record) {
	before, compacted := e.last, e.scan.Meta.CompactRevision()
	e.last = r.Revision
	if r.Main <= compacted || len(r.Key) == 0 {
		return
	}
	if before.Main <= compacted {
		before = dbfile.Revision{Main: max(1, compacted)} // an empty store is at revision 1
	}
	if r.Main == before.Main+1 && r.Sub == 0 || r.Main == before.Main && r.Sub == before.Sub+1 {
		return
	}
	if e.gaps++; e.gaps == 1 {
		e.firstGap = fmt.Sprintf("%s follows %s", r.Revision, before)
	}
}

func (e *examination) contradicts(r *dbfile.Record, what string) {
	if e.inconsistent++; e.inconsistent == 1 {
		e.firstInconsistent = fmt.Sprintf("the record of revision %s %s", r.Revision, what)
	}
}

// other takes a record of the small buckets. What does not decode there is damage
// of the record: the server that starts on the file ends.
func (e *examination) other(bucket string, key, value []byte) error {
	e.content.other(bucket, key, value)
	if bucket == dbfile.BucketLease {
		e.leases.found(key)
	}
	err := e.status.take(bucket, key, value)
	if err == nil {
		return nil
	}
	return e.damage(&dbfile.Damage{Class: dbfile.DamageRecord, Bucket: bucket, Element: -1,
		Msg: fmt.Sprintf("the record %q does not decode: %v", key[:min(len(key), 40)], err)})
}

// take puts one record of a small bucket into the status.
func (s *Status) take(bucket string, key, value []byte) error {
	switch bucket {
	case dbfile.BucketLease:
		l, err := dbfile.ParseLease(key, value)
		if err != nil {
			return err
		}
		s.Leases.Count++
		s.Leases.MaxTTLSeconds = max(s.Leases.MaxTTLSeconds, l.TTL)
	case dbfile.BucketAlarm:
		a, err := dbfile.ParseAlarm(key)
		if err != nil {
			return err
		}
		if len(s.Alarms) < maxListed {
			s.Alarms = append(s.Alarms, Alarm{MemberID: ID(a.MemberID), Type: a.Type})
		}
	case dbfile.BucketMembers:
		m, err := dbfile.ParseMember(key, value)
		if err != nil {
			return err
		}
		if len(s.Members) < maxListed {
			s.Members = append(s.Members, Member{ID: ID(m.ID), Name: m.Name, Learner: m.IsLearner, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs})
		}
	case dbfile.BucketMembersRemoved:
		s.MembersRemoved++
		_, err := dbfile.ParseMemberID(key)
		return err
	case dbfile.BucketCluster:
		return s.takeCluster(string(key), value)
	case dbfile.BucketAuth:
		return s.takeAuth(string(key), value)
	case dbfile.BucketAuthUsers:
		s.Auth.Users++
		return dbfile.CheckAuth(bucket, value)
	case dbfile.BucketAuthRoles:
		s.Auth.Roles++
		return dbfile.CheckAuth(bucket, value)
	}
	return nil
}

func (s *Status) takeCluster(key string, value []byte) error {
	switch key {
	case dbfile.ClusterVersionKey:
		s.ClusterVersion = string(value)
		_, err := parseVersion(s.ClusterVersion)
		return err
	case dbfile.ClusterDowngradeKey:
		d, err := dbfile.ParseDowngrade(value)
		if err != nil {
			return err
		}
		if d.Enabled {
			s.Downgrade = &Downgrade{Enabled: true, TargetVersion: d.TargetVersion}
		}
	}
	return nil
}

func (s *Status) takeAuth(key string, value []byte) error {
	switch key {
	case dbfile.AuthEnabledKey:
		s.Auth.Enabled = len(value) == 1 && value[0] == 1
	case dbfile.AuthRevisionKey:
		rev, err := dbfile.ParseAuthRevision(value)
		s.Auth.Revision = rev
		return err
	}
	return nil
}

// finish completes the status with what the scan as a whole says.
func (e *examination) finish() {
	s, m := &e.status, e.scan.Meta
	s.InUseBytes = int64(e.scan.Used) * int64(e.header.PageSize) //nolint:gosec // pages of a file
	s.FreeBytes = max(0, e.data-s.InUseBytes)
	if e.scan.Freelist >= 0 {
		s.FreelistPages = &e.scan.Freelist
	}
	s.Revision, s.CompactRevision = e.scan.Head, m.FinishedCompact
	if m.CompactionPending() {
		s.PendingCompactRevision = &m.ScheduledCompact
	}
	s.StorageVersion, s.ConsistentIndex, s.Term = m.StorageVersion, m.ConsistentIndex, m.Term
	s.Buckets = append(s.Buckets, e.scan.Buckets...)
	if e.damaged == 0 { // else they may be where it could not be read
		s.Leases.KeysWithout, e.leases.first = e.leases.without()
	}
	s.Digests = Digests{
		FileSHA256: e.hashes.file, DataSHA256: e.hashes.pages, Stored: e.hashes.stored,
		KV: KVHash{Algorithm: "etcd-hashkv", Hash: e.scan.KVHash.Hash, Revision: e.scan.KVHash.Revision, CompactRevision: e.scan.KVHash.CompactRevision},
	}
}
