package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kvd/pkg/ops/fault"
)

// What could not be written, or would destroy something, is refused before anybody
// is asked, with --force too, and leaves the folder as it is.
func TestCheckDest(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(at("s.db"), []byte("a snapshot"), 0o600), os.Mkdir(at("d"), 0o700), os.Symlink(dir, at("d/again")),
		os.Symlink("s.db", at("link")), os.Link(at("s.db"), at("hard")), os.Symlink("/dev/null", at("null")), os.Symlink("d", at("folder")),
		os.Symlink("nothing", at("dangling")), syscall.Mkfifo(at("fifo"), 0o600), os.Symlink("fifo", at("tofifo")),
	); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 244)
	for _, tc := range []struct {
		dest, manifest string
		kind           fault.Kind // with --force; empty: fine
		says           string
	}{
		{"s.db", "s.db.json", "", ""},
		{"link", "link.json", "", ""},
		{"dangling", "dangling.json", "", ""},
		{"s.db", "s.db", fault.Usage, "where the snapshot goes"},
		{"new", "new", fault.Usage, "where the snapshot goes"},
		{"new", "./d/../new", fault.Usage, "where the snapshot goes"},
		{"new", "d/again/new", fault.Usage, "where the snapshot goes"},
		{"d/again/new", "new", fault.Usage, "where the snapshot goes"},
		{"new", "new.kvd.part", fault.Usage, "where the snapshot goes"},
		{"new.kvd.part", "new", fault.Usage, "where the snapshot goes"},
		{"s.db", "link", fault.Usage, "where the snapshot goes"},
		{"link", "s.db", fault.Usage, "where the snapshot goes"},
		{"s.db", "hard", fault.Usage, "where the snapshot goes"},
		{"s.db", "null", fault.Usage, "no regular file"},
		{"s.db", "d", fault.Usage, "folder"},
		{"null", "", fault.Usage, "no regular file"},
		{"tofifo", "", fault.Usage, "no regular file"},
		{"fifo", "", fault.Usage, "no regular file"},
		{"folder", "", fault.Usage, "folder"},
		{"/dev/stdout", "", fault.Usage, "a device"},
		{"/dev/fd/1", "", fault.Usage, "a device"},
		{"/dev/new", "", fault.Usage, "a device"},
		{"none/x.db", "none/x.db.json", fault.Usage, "none: no such file"},
		{"s.db/x.db", "", fault.Usage, "s.db: not a directory"},
		{"new", "none/m", fault.Usage, "none: no such file"},
		{long, long + ".json", fault.Usage, "too long"},
		{"-", "-", fault.Usage, "goes into a file"},
	} {
		o := SaveOptions{Dest: tc.dest, Manifest: tc.manifest, Force: true}
		for _, name := range []*string{&o.Dest, &o.Manifest} {
			if *name != "" && *name != Stdout && (*name)[0] != '/' {
				*name = dir + "/" + *name
			}
		}
		before, _ := os.ReadDir(dir)
		err := o.CheckDest()
		if fault.KindOf(err) != tc.kind || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s, manifest %s: %v", tc.dest, tc.manifest, err)
		}
		if after, _ := os.ReadDir(dir); len(after) != len(before) {
			t.Errorf("%s, manifest %s: %v, before %v", tc.dest, tc.manifest, after, before)
		}
	}
}
