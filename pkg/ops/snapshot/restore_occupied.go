package snapshot

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"kvd/pkg/ops/dbfile"
)

// holdsLog says whether a folder is the log of an etcd member.
func holdsLog(dir string) bool {
	names, err := namesIn(dir)
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return filepath.Ext(n) == ".wal" })
}

// describeDir says what is in a folder that is in the way.
func describeDir(path string, names []string) string {
	if rec := readRecord(path); rec != nil {
		return fmt.Sprintf("%s, restored by kvd at %s", rec.Name, rec.At.Format("2006-01-02 15:04 MST"))
	}
	if f, err := dbfile.OpenWith(dbOf(path), dbfile.Options{Live: true}); err == nil {
		defer f.Close() //nolint:errcheck // nothing was written
		what := fmt.Sprintf("the data of an etcd member, %d MiB", f.Size()>>20)
		var members []string
		_ = f.Each(context.Background(), dbfile.BucketMembers, func(key, value []byte) error {
			if m, err := dbfile.ParseMember(key, value); err == nil && len(members) < 10 {
				members = append(members, m.Name)
			}
			return nil
		})
		if len(members) > 0 {
			what += " (of a cluster of " + strings.Join(members, ", ") + ")"
		}
		if holder, held := f.Live(); held {
			what += ", in use by " + holder.String()
		}
		return what
	}
	more := ""
	if len(names) > 5 {
		names, more = names[:5], fmt.Sprintf(" and %d more", len(names)-5)
	}
	return fmt.Sprintf("%q%s", names, more)
}
