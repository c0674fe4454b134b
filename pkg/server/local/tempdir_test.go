package local

import (
	"os"
	"path/filepath"
	"testing"
)

// The folder of a process that was killed goes with the next one; the folder of one
// that lives stays, and one whose members outlive their process.
func TestTempFolders(t *testing.T) {
	all := filepath.Join(t.TempDir(), "[a]*") // a folder may be called so
	if err := os.Mkdir(all, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", all)
	start := func(o Options) *Cluster {
		o.Command.Path = "/nowhere" // nothing is started
		c, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	killed, alive, detached := start(Options{}), start(Options{}), start(Options{Detach: true})
	if err := os.WriteFile(filepath.Join(killed.Root(), "db"), []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := killed.lock.Close(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	next := start(Options{})
	for _, c := range []*Cluster{killed, alive, detached, next} {
		if _, err := os.Stat(c.Root()); (err == nil) != (c != killed) {
			t.Errorf("%v", err)
		}
	}
	for _, c := range []*Cluster{alive, next, detached} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(all); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A cluster that cannot be prepared leaves no folder and no claim on a port.
func TestNewFails(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	if _, err := New(Options{Command: Command{Path: "/nowhere"}, Cuttable: true, TLS: &TLS{Peers: true}}); err == nil {
		t.Fatal("peers that use TLS can be cut")
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
