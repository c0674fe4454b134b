package snapshot

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// content is a digest of everything in a file that a restore has to bring back
// unchanged. It is computed beside the look at the file, and again from what was
// restored. Unlike etcd's own digest of keys and values (KVHash) it has all
// records in it, compacted or not, so that marking a revision as compacted does
// not change it; and what is in the other buckets.
type content struct {
	records int64
	last    dbfile.Revision // of the last record
	keys    uint32
	buckets map[string]*bucketContent
}

type bucketContent struct {
	records int64
	crc     uint32
}

// crcTable returns the table of CRC-32C, which processors compute by themselves.
func crcTable() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func (c *content) record(r *dbfile.Record) {
	c.records++
	c.last = r.Revision
	c.keys = crc32.Update(crc32.Update(c.keys, crcTable(), r.RawKey), crcTable(), r.RawValue)
}

func (c *content) other(bucket string, key, value []byte) {
	if !carried(bucket) {
		return
	}
	if c.buckets == nil {
		c.buckets = map[string]*bucketContent{}
	}
	b := c.buckets[bucket]
	if b == nil {
		b = &bucketContent{}
		c.buckets[bucket] = b
	}
	b.records++
	b.crc = crc32.Update(crc32.Update(b.crc, crcTable(), key), crcTable(), value)
}

// carried says whether a restore leaves a bucket as it is. Of the others it writes
// the members anew, and where the log begins.
//
// Source: go.etcd.io/etcd/etcdutl/v3 v3.7.3, snapshot/v3_snapshot.go.
func carried(bucket string) bool {
	switch bucket {
	case dbfile.BucketMembers, dbfile.BucketMembersRemoved, dbfile.BucketMeta:
		return false
	}
	return true
}

// differences says in what restored data are not what was in the file.
func (c *content) differences(restored *content, alarmsCleared bool) []string {
	var out []string
	if c.records != restored.records || c.keys != restored.keys {
		out = append(out, fmt.Sprintf("%d records of keys with digest %08x, and %d with %08x in the file", restored.records, restored.keys, c.records, c.keys))
	}
	names := map[string]bool{}
	for _, from := range []map[string]*bucketContent{c.buckets, restored.buckets} {
		for name := range from {
			names[name] = true
		}
	}
	for name := range names {
		var was, is bucketContent
		if b := c.buckets[name]; b != nil && (name != dbfile.BucketAlarm || !alarmsCleared) {
			was = *b
		}
		if b := restored.buckets[name]; b != nil {
			is = *b
		}
		if was != is {
			out = append(out, fmt.Sprintf("bucket %q has %d records, and should have %d (or others)", name, is.records, was.records))
		}
	}
	slices.Sort(out)
	return out
}

// restored is what was read of restored data.
type restored struct {
	content
	meta    dbfile.Meta
	bumped  int64 // the revision of the empty record that a bump leaves, 0 where there is none
	members []RecipeMember
	removed int
}

// readRestored reads a db that was just restored, once. bumpTo is the revision of
// the record that lifts it, 0 for none: that one is not in the digest.
func readRestored(ctx context.Context, path string, bumpTo int64) (*restored, error) {
	f, err := dbfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	r := &restored{}
	s := dbfile.Scan{SkipLive: true,
		Record: func(rec *dbfile.Record) error {
			if bumpTo > 0 && rec.Main == bumpTo && rec.Sub == 0 && len(rec.RawValue) == 0 {
				r.bumped = rec.Main
				return nil
			}
			r.record(rec)
			return nil
		},
		Other: func(bucket string, key, value []byte) error {
			r.other(bucket, key, value)
			switch bucket {
			case dbfile.BucketMembersRemoved:
				r.removed++
			case dbfile.BucketMembers:
				m, err := dbfile.ParseMember(key, value)
				if err != nil {
					return err
				}
				r.members = append(r.members, RecipeMember{Name: m.Name, PeerURLs: m.PeerURLs})
			}
			return nil
		},
	}
	if err := s.Run(ctx, f); err != nil {
		return nil, err
	}
	r.meta = s.Meta
	slices.SortFunc(r.members, func(a, b RecipeMember) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

// prove reads restored data and compares them with the file and the recipe.
func (r *Restore) prove(ctx context.Context, db string) error {
	bumpTo := r.bumpedTo()
	got, err := readRestored(ctx, db, bumpTo)
	if err != nil {
		return err
	}
	wrong := r.source.content.differences(&got.content, r.Recipe.ClearAlarms)
	if bumpTo > 0 && (got.bumped != bumpTo || got.meta.ScheduledCompact != bumpTo) {
		wrong = append(wrong, fmt.Sprintf("the revision is not %d and marked as compacted", bumpTo))
	}
	before := r.source.scan.Meta
	if bumpTo == 0 && got.meta.ScheduledCompact != before.ScheduledCompact || got.meta.FinishedCompact != before.FinishedCompact ||
		got.meta.StorageVersion != before.StorageVersion {
		wrong = append(wrong, "compacted revision or storage version have changed")
	}
	equal := func(a, b RecipeMember) bool { return a.Name == b.Name && slices.Equal(a.PeerURLs, b.PeerURLs) }
	if !slices.EqualFunc(got.members, r.Recipe.sortedMembers(), equal) || got.removed > 0 {
		wrong = append(wrong, fmt.Sprintf("the members are %v", got.members))
	}
	if len(wrong) == 0 {
		return nil
	}
	return &fault.Error{Kind: fault.Damage, Cause: "restored_differs", Op: opRestore, Subject: r.file.Name(),
		Msg:  "what was restored is not what is in the file: " + strings.Join(wrong, "; "),
		Hint: "nothing was put into its place. Did the file change meanwhile, or does the disk lose writes?"}
}
