package diagnose

import (
	"strconv"
	"testing"

	"kvd/pkg/ops/wal"
)

// A key in a command is read again as the one it was: each character or escape by
// itself, as the command line does it.
func TestPrintableKeysAreReadAgain(t *testing.T) {
	for _, key := range []string{"/registry/pods/a", `"`, `a"`, `\"`, `"a" b'c`, `\`, "\xff\x00\n", "é\u200b"} {
		var got []byte
		for rest := printable([]byte(key)); rest != ""; {
			c, multibyte, tail, err := strconv.UnquoteChar(rest, 0)
			if err != nil {
				t.Fatalf("%q is told as %s, of which %s is no key: %v", key, printable([]byte(key)), rest, err)
			}
			if rest = tail; multibyte {
				got = append(got, string(c)...)
			} else {
				got = append(got, byte(c))
			}
		}
		if string(got) != key {
			t.Errorf("%q is read as %q", key, got)
		}
	}
}

// Commands about a log name its own folder where the directory has none, and the database
// with it.
func TestCommandsForALogElsewhere(t *testing.T) {
	db := &wal.Database{Path: "/my data/member/snap/db"}
	for _, c := range []struct {
		dir            Dir
		log            string
		dump, verified string
	}{
		{Dir{Path: "/data"}, "/data/member/wal", "/data", "/data"},
		{Dir{Path: "./data/"}, "data/member/wal", "./data/", "./data/"},
		{Dir{Path: "/data/member"}, "/data/member/wal", "/data/member", "/data/member"},
		{Dir{Path: "."}, ".", ".", "."},
		{Dir{Path: "/my data"}, "/my data/member/wal", "'/my data'", "'/my data'"},
		{Dir{Path: "/my data"}, "/wal", "/wal", "/wal --db '/my data/member/snap/db'"},
		{Dir{Path: "/data"}, "", "/data", "/data"}, // there is none
	} {
		c.dir.Log = &wal.Verification{Dir: c.log, Database: db}
		if dump, verify := c.dir.logArg(), c.dir.verifyArgs(); dump != c.dump || verify != c.verified {
			t.Errorf("%s with its log in %s: kvd wal dump %s, kvd wal verify %s", c.dir.Path, c.log, dump, verify)
		}
	}
	gone := Dir{Path: "/data", Log: &wal.Verification{Dir: "/wal"}}
	if got := gone.verifyArgs(); got != "/wal" {
		t.Errorf("without a database: %s", got)
	}
}
