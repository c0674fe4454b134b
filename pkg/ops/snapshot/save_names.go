package snapshot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"kvd/pkg/ops/fault"
)

// checkNames looks for what has the names that the save is to give.
func (o SaveOptions) checkNames() error {
	there := false
	if o.Dest != Stdout {
		var err error
		if there, err = checkPlace(o.Dest, "to write to a pipe give "+Stdout); err != nil {
			return err
		}
		if there && !o.Force {
			return exists(o.Dest)
		}
	}
	if o.Manifest == "" {
		return nil
	}
	taken, err := o.checkManifest()
	if err != nil || !taken || o.Force {
		return err
	}
	// A manifest without its snapshot is of no use to anybody.
	if _, err := ReadManifest(o.Manifest); err == nil && !there && o.Dest != Stdout && sameName(o.Manifest, ManifestPath(o.Dest)) {
		return nil
	}
	return exists(o.Manifest)
}

// checkManifest says whether something has the manifest's name.
func (o SaveOptions) checkManifest() (taken bool, err error) {
	const hint = "name another file with --manifest, or --no-manifest"
	if o.Manifest == Stdout {
		return false, &fault.Error{Kind: fault.Usage, Cause: "destination", Op: opSave, Subject: o.Manifest, Msg: "a manifest goes into a file",
			Hint: "the result has it too: -o json"}
	}
	if taken, err = checkPlace(o.Manifest, hint); err != nil || o.Dest == Stdout {
		return taken, err
	}
	clash := sameName(o.Manifest, o.Dest) || sameFile(o.Manifest, o.Dest) ||
		sameName(o.Manifest, o.Dest+partSuffix) || sameName(o.Manifest+partSuffix, o.Dest)
	if clash {
		return taken, &fault.Error{Kind: fault.Usage, Cause: "destination", Op: opSave, Subject: o.Manifest,
			Msg: "the manifest would go where the snapshot goes", Hint: hint}
	}
	return taken, nil
}

// checkPlace says whether something has a name, and refuses one that no file can
// be given. A link counts as what it leads to: a file is put in the place of one
// that leads to a file, not of one that leads to a pipe.
func checkPlace(path, otherwise string) (there bool, err error) {
	wrong := func(msg, hint string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "destination", Op: opSave, Subject: path, Msg: msg, Hint: hint}
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return false, fileError(opSave, dir, err)
	}
	if ofTheSystem(path) {
		return false, wrong("it is a device, no place for a file", otherwise)
	}
	info, err = os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && !os.IsPathSeparator(path[len(path)-1]) {
		return false, nil
	}
	if err != nil {
		return false, fileError(opSave, path, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err := os.Stat(path); err == nil {
			info = target
		}
	}
	switch {
	case info.IsDir():
		return true, wrong("it is a folder", "name a file in it")
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return true, wrong("it is no regular file", otherwise)
	}
	return true, nil
}

// ofTheSystem says whether a name is one of /dev or /proc, whatever it leads to:
// /dev/stdout leads to a regular file where the output goes to one.
func ofTheSystem(path string) bool {
	dir := filepath.Dir(resolved(path))
	return dir == "/dev" || dir == "/proc" || strings.HasPrefix(dir, "/proc/")
}

// resolved is the one name of what a path names itself: the links in its folder
// followed, it not.
func resolved(path string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, filepath.Base(path))
}

func sameName(a, b string) bool { return resolved(a) == resolved(b) }

// sameFile says whether two names are links to one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

func exists(path string) error {
	return &fault.Error{Kind: fault.Refused, Cause: "file_exists", Op: opSave, Subject: path, Msg: "it is there already, and would be overwritten",
		Hint: "give another name, or --force"}
}
