package dbfile

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"

	"kvd/pkg/ops/fault"
)

// HashSize is the length of the SHA-256 that a server sends after the pages of a
// snapshot (server/v3/etcdserver/api/v3rpc/maintenance.go, Snapshot).
const HashSize = 32

// Options says how to open a file. The zero value is the careful way.
type Options struct {
	// Live opens the file although a running server holds it. Pages may
	// change while they are read, so that what is read may be torn.
	Live bool
	// NoLock takes no lock, which lets a server start meanwhile; it is Live besides.
	NoLock bool
}

// File is a backend file or snapshot that is open for reading. It is safe for
// concurrent use, except for Close.
type File struct {
	name   string
	r      io.ReaderAt
	size   int64
	header Header
	disk   *diskFile // nil where it reads from something else than a file
}

// Open opens a backend file or a snapshot for reading, and looks for a valid meta
// page. Whether the rest is whole is seen as it is read: each method that meets
// damage returns a fault.Damage error with a *Damage in it.
//
// Errors: fault.Usage where there is no such file or it is none, fault.Denied
// where it must not be read, fault.Refused with cause "file_in_use" at once where
// a running server holds it, fault.Damage with the content's kind (KindGzip, …)
// or DamageNoMeta as its cause where it is no backend file.
func Open(path string) (*File, error) { return OpenWith(path, Options{}) }

// OpenWith is Open with options.
func OpenWith(path string, o Options) (*File, error) {
	disk, size, err := openDisk(path, o)
	if err != nil {
		return nil, err
	}
	f := &File{name: path, r: disk.file, size: size, disk: disk}
	if err := f.init(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// New reads a backend file or snapshot of size bytes from r, for content that is
// not on disk as it is (compressed, encrypted). Reads of r may be concurrent.
func New(name string, r io.ReaderAt, size int64) (*File, error) {
	f := &File{name: name, r: r, size: size}
	if err := f.init(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) init() error {
	h, bad := f.findHeader()
	if bad == "" {
		f.header = h
		return nil
	}
	kind, err := sniff(f.r, f.size)
	if kind == KindOther && raftSnap().MatchString(filepath.Base(f.name)) {
		kind = KindRaftSnap
	}
	switch {
	case err != nil:
		return &fault.Error{Kind: fault.Unavailable, Cause: DamageUnreadable, Op: "open", Subject: f.name, Err: err}
	case kind == KindBackend:
		d := &Damage{Class: DamageNoMeta, Element: -1, Msg: "neither meta page is valid: " + bad}
		return &fault.Error{Kind: fault.Damage, Cause: DamageNoMeta, Op: "open", Subject: f.name, Err: d}
	}
	return &fault.Error{
		Kind: fault.Damage, Cause: string(kind), Op: "open", Subject: f.name,
		Msg: fmt.Sprintf("not an etcd backend file or snapshot: %s, %d bytes", kind.Describe(), f.size), Hint: f.hintOf(kind),
	}
}

// Close releases the file and its lock.
func (f *File) Close() error {
	if f.disk == nil {
		return nil
	}
	return f.disk.close()
}

// Name returns the name it was opened with.
func (f *File) Name() string { return f.name }

// Size returns the length of the file in bytes, as it was when opened.
func (f *File) Size() int64 { return f.size }

// Header returns what the meta page says.
func (f *File) Header() Header { return f.header }

// DataSize returns the length in bytes that all pages have according to the meta
// page. A snapshot is exactly that long, and HashSize more with its hash; a
// server's own file is as long or longer, since it grows ahead of its use.
func (f *File) DataSize() int64 { return int64(f.header.Pages) * int64(f.header.PageSize) }

// Live reports whether a running server holds the file, and which: only where it
// was opened with Options.Live.
func (f *File) Live() (Holder, bool) {
	if f.disk == nil || f.disk.holder == nil {
		return Holder{}, false
	}
	return *f.disk.holder, true
}

// Holder looks for a running server that holds the file by now: it may have started
// since the file was opened without a lock.
func (f *File) Holder() (Holder, bool) {
	if f.disk == nil {
		return Holder{}, false
	}
	return HolderOf(f.disk.file)
}

// ReadAt reads raw bytes, for hashing and copying.
func (f *File) ReadAt(b []byte, offset int64) (int, error) { return f.r.ReadAt(b, offset) }

// openError turns an error of the operating system into one for people.
func openError(path string, err error) error {
	e := fault.OfFile("open", path, "unreadable_file", err)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.ENOTDIR) {
		e.Kind, e.Cause = fault.Usage, "file_name" // no disk will ever have it
	}
	return e
}
