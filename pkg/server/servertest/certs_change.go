package servertest

import (
	"os"
	"path/filepath"
	"testing"
)

// Files is one member's own certificate, key and CA, which a test changes as an
// operator does: what is at these paths, and not the paths.
type Files struct {
	tb   testing.TB
	CA   string // may hold several
	Pair Pair
}

// NewFiles copies a pair, and the CAs that are to be trusted, to a folder of their own.
func NewFiles(tb testing.TB, pair Pair, cas ...string) Files {
	tb.Helper()
	dir := tb.TempDir()
	f := Files{tb, filepath.Join(dir, "ca.crt"), Pair{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}}
	f.Trust(cas...)
	f.Show(pair)
	return f
}

// Trust puts these CAs in the place of those that were trusted.
func (f Files) Trust(cas ...string) {
	f.tb.Helper()
	var all []byte
	for _, ca := range cas {
		all = append(all, f.read(ca)...)
	}
	f.replace(f.CA, all)
}

// Show puts another pair in the place of the one that was shown.
func (f Files) Show(p Pair) {
	f.tb.Helper()
	f.replace(f.Pair.Cert, f.read(p.Cert))
	f.replace(f.Pair.Key, f.read(p.Key))
}

// Args are the flags of a member that has these files for clients and for peers.
func (f Files) Args() []string {
	return []string{"--cert-file=" + f.Pair.Cert, "--key-file=" + f.Pair.Key, "--trusted-ca-file=" + f.CA,
		"--peer-cert-file=" + f.Pair.Cert, "--peer-key-file=" + f.Pair.Key, "--peer-trusted-ca-file=" + f.CA}
}

func (f Files) read(path string) []byte {
	f.tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		f.tb.Fatal(err)
	}
	return b
}

func (f Files) replace(path string, b []byte) {
	f.tb.Helper()
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		f.tb.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		f.tb.Fatal(err)
	}
}
