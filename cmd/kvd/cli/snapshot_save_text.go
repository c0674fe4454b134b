package cli

import (
	"fmt"
	"io"
	"time"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/ops/spool"
)

func snapshotSaveHelp() help {
	return help{
		Long: `
Saves the database of one member to a file, or with "-" to standard output. It
chooses the member: of the followers that are no more than --max-lag entries behind
the furthest the one that answers first, and the leader only if no follower can be
used. A member that is passed over is named with the reason. The snapshot has at
least the revision that the cluster had when the command began, read through the
quorum, and comes from one member in one stream.

What was saved is checked as "kvd snapshot verify" does: the hash that the member
sends, every page, every record. The file gets its name when that is done and all
of it is on disk. Whatever goes wrong before, nothing is there under that name: a
file DEST.kvd.part, left by a process that was killed (SIGKILL), is replaced by the
next run, and a *.kvd.part in that folder that nobody holds and that is more than an
hour old is removed.
A file that is there already is overwritten with --force only; where DEST is a link
to a file, the snapshot comes in the place of the link, and that file stays as it is.

Beside it goes DEST.json, the manifest: SHA-256, sizes, revision, compacted revision,
keys, the digest of keys and values, member, cluster, versions, times. Where it goes
elsewhere or nowhere, a DEST.json of the file that had the name before is removed.

With --compress zstd, and with "-", the member is read into a file without a name
in --spool-dir first, and goes on from there when it was checked; --verify=hash does
without that. With "-" the result is on stderr, with -o json as its last line.
"kvd snapshot status", "verify" and "restore" read compressed files as
they are; for etcdutl decompress them (zstd -d).`,
		Cost: `One status per member three times, a read through the quorum, and one read of a whole database: disk and network of
  that member. While it lasts the member cannot use freed pages again, so that its file grows with what is written; hence
  the refusal above 90 % of the quota. A member whose quota is not known (etcd before 3.6 without metrics) is not held against it
  without --quota. By how much the file grew is in the result.`,
		Example: `
  kvd snapshot save backup.db
  kvd snapshot save backup-$(date +%F).db.zst --compress zstd
  kvd snapshot save backup.db --member m2 --force
  kvd snapshot save - --compress zstd | aws s3 cp - s3://backups/etcd.db.zst
  kvd snapshot save last.db --without-quorum          # the others are lost
  kvd snapshot save backup.db -o json | jq .manifest.revision`,
		Exits: []int{4, 5, 6, 7, 8},
	}
}

// savedTable draws what was saved.
func savedTable(s *snapshot.Saved) func(io.Writer) error {
	return func(w io.Writer) error {
		m := s.Manifest
		rows := []snapshotRow{
			{"file", s.File},
			{"manifest", orDash(s.ManifestFile)},
			{"size", sizeText(m.SizeBytes)},
			{"sha256", m.SHA256},
			{"checked", m.Verified},
		}
		if m.Compression != spool.None {
			rows = append(rows, snapshotRow{"decompressed", sizeText(m.SnapshotBytes)})
		}
		if m.Verified == snapshot.VerifiedFull {
			rows = append(rows,
				snapshotRow{"revision", fmt.Sprintf("%d, at the start it was %s", m.Revision, numberOr(m.StartRevision, "not known"))},
				snapshotRow{"compacted revision", numberOr(m.CompactRevision, "never compacted")},
				snapshotRow{"keys", fmt.Sprintf("%d, %s kept", m.Keys, count(int(m.Revisions), "revision"))},
				snapshotRow{"hashkv", fmt.Sprint(m.KV.Hash)})
		}
		rows = append(rows,
			snapshotRow{"member", fmt.Sprintf("%s (%s), %s", orDash(m.Member.Name), m.Member.ID, s.Why)},
			snapshotRow{"etcd", m.ServerVersion},
			snapshotRow{"the member's file", grownText(s)},
			snapshotRow{"took", tookText(s)})
		columns := render.Columns[snapshotRow]{
			{Header: "what", Value: func(r snapshotRow) string { return r.name }},
			{Header: "value", Value: func(r snapshotRow) string { return r.value }},
		}
		if err := columns.Write(w, rows); err != nil || len(s.Findings) == 0 {
			return err
		}
		fmt.Fprintln(w)
		return findingColumns().Write(w, s.Findings)
	}
}

// grownText says what the long read cost the member.
func grownText(s *snapshot.Saved) string {
	switch {
	case s.DBSizeAfter == 0:
		return sizeText(s.DBSizeBefore) + " before"
	case s.DBSizeAfter == s.DBSizeBefore:
		return sizeText(s.DBSizeBefore) + ", did not grow"
	}
	return fmt.Sprintf("%s, %s before: it grew by %s", sizeText(s.DBSizeAfter), sizeText(s.DBSizeBefore), sizeText(s.DBSizeAfter-s.DBSizeBefore))
}

func tookText(s *snapshot.Saved) string {
	rate := float64(s.Manifest.SnapshotBytes) / max(s.ReceiveSeconds, 1e-6)
	return fmt.Sprintf("%s, %s of it to read the member (%s/s)", seconds(s.TookSeconds),
		time.Duration(s.ReceiveSeconds*float64(time.Second)).Round(time.Millisecond), sizeText(int64(rate)))
}
