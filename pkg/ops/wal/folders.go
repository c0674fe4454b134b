package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CauseFolder is that of a refusal because the database's folder is none.
const CauseFolder = "not_a_folder"

// lostLink says where a link leads that leads to nothing, as to a disk that is not
// mounted; "" where path is no such link.
func lostLink(path string) (target string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return ""
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	target, err = os.Readlink(path)
	if err != nil {
		return ""
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	return target
}

// noFolder says why a start cannot have a folder at a path, which it makes where there is
// nothing (TouchDirAll in client/pkg/fileutil); "" is that it can.
func noFolder(path string) string {
	if target := lostLink(path); target != "" {
		return fmt.Sprintf("%s is a link to %s, which is not there", path, target)
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return path + " is no folder"
	}
	return ""
}

// lostFolder says which of the folders of a member is a link that leads to nothing, so
// that its files are taken for gone.
func lostFolder(dir string) string {
	for _, sub := range []string{"", "member", "wal", "snap", filepath.Join("member", "wal"), filepath.Join("member", "snap")} {
		path := filepath.Join(dir, sub)
		if target := lostLink(path); target != "" {
			return fmt.Sprintf("%s is a link to %s, which is not there", path, target)
		}
	}
	return ""
}

// snapFolder is bootstrapSnapshot in server/etcdserver/bootstrap.go: the folder of the
// database comes before all else.
func (x *exam) snapFolder() (Verdict, bool) {
	if x.noSnap == "" {
		return Verdict{}, false
	}
	return Verdict{Outcome: Refuses, cause: CauseFolder, Message: "failed to create snapshot directory", Why: x.noSnap}, true
}

// hintFolder is for links that lead to nothing, and what stands where a folder has to be.
const hintFolder = "mount what it leads to, or put the folder there again; start nothing without it, and verify again"

// unreadableHint says what to do about a file that the system does not give.
func unreadableHint(path string) string {
	if lostLink(path) != "" {
		return "mount what it leads to; start nothing without it, and verify again"
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "what has the name of a file of etcd's is a folder: move it away and keep it, and put the file back, if there is a copy"
	}
	return "see what the system says of its disk (dmesg), and copy what can still be read before anything is started on it"
}
