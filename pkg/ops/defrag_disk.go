package ops

import (
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// defragDisk is the disk under a member's file, seen from this machine.
type defragDisk struct {
	dir  string // where the copy is made
	free int64  // bytes that are free there
}

// copyRoom is how many bytes a defragmentation needs beside the file: etcd
// writes the copy next to it and renames it when it is complete. The copy has
// what is in use; bbolt fills pages to 90 % and grows the file in steps of
// 16 MiB (DefaultAllocSize).
func copyRoom(inUse int64) int64 { return inUse + inUse/10 + 16<<20 }

// roomForCopy refuses where the copy would not fit. Where the disk can't be seen
// it does not; the plan says so.
func (d *defragmentation) roomForCopy(view cluster.View, planned cluster.Member) error {
	m, ok := view.MemberByID(planned.ID)
	if !ok || m.Status == nil || d.opts.SkipDiskCheck {
		return nil
	}
	disk, ok := d.local(m)
	if need := copyRoom(m.Status.DBInUse); ok && disk.free < need {
		hint := "free space there first, or compact so that less is in use"
		if left := halfCopies(disk.dir); len(left) > 0 { // no member defragments: that gate is passed
			hint = "remove " + strings.Join(left, ", ") + ", which a failed defragmentation has left there, or free space otherwise"
		}
		return &fault.Error{Kind: fault.Refused, Cause: "disk_space", Op: "defrag", Subject: m.Label(),
			Msg: fmt.Sprintf("gate \"room for the copy\": it needs about %s in %s, where %s are free",
				binary(need), disk.dir, binary(disk.free)),
			Hint: hint + "; --skip-disk-check if this looks at the wrong disk"}
	}
	return nil
}

// halfCopy says what to do after a defragmentation that failed, and about the copy
// that it leaves. etcd asks for the path of the copy after closing it, when bbolt
// has forgotten it (backend.go, "failed to remove db.tmp after defragmentation
// completed"), so that the file stays until the next start, which clears the folder
// of db.tmp.*.
func (d *defragmentation) halfCopy(m cluster.Member, cause error) string {
	const keeps = "etcd up to 3.7.3 leaves the half copy of a failed defragmentation beside its file until its next start"
	full := diskFull(cause)
	disk, ok := d.local(m)
	left := halfCopies(disk.dir)
	switch {
	case ok && len(left) > 0:
		return keeps + ": remove " + strings.Join(left, ", ") + " to get the space back"
	case !ok && (full || fault.CauseOf(cause) != causeDefragNotDone):
		return keeps + ": remove member/snap/db.tmp.* on that machine to get the space back"
	case full:
		return "make room on the disk before trying again"
	}
	return "look at the member's log for what kept it from it, then run the same again"
}

// diskFull reports that the member's disk was full, which comes from there as text.
func diskFull(err error) bool { return strings.Contains(err.Error(), syscall.ENOSPC.Error()) }

// halfCopies lists the copies in a member's folder that are no part of it, as long
// as it does not defragment.
func halfCopies(dir string) []string {
	if dir == "" {
		return nil
	}
	left, _ := fs.Glob(os.DirFS(dir), "db.tmp.*") // dir may have in its name what a pattern has
	for i, name := range left {
		left[i] = filepath.Join(dir, name)
	}
	return left
}

// diskOf finds the disk of a member that runs on this machine: through the file
// that the process listening on its port has open, else through the data
// directory that the user gave.
func (d *defragmentation) diskOf(m cluster.Member) (defragDisk, bool) {
	port, ok := localPort(m.Endpoint)
	if !ok {
		return defragDisk{}, false
	}
	if disk, ok := diskOfListener(port); ok {
		return disk, true
	}
	if d.opts.DataDir == "" {
		return defragDisk{}, false
	}
	dir := filepath.Join(d.opts.DataDir, "member", "snap")
	free, err := freeBytes(dir)
	return defragDisk{dir: dir, free: free}, err == nil
}

// localPort returns the port of an endpoint that is an address of this machine.
func localPort(endpoint string) (port string, local bool) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		if u, err = url.Parse("//" + endpoint); err != nil {
			return "", false
		}
	}
	if u.Port() == "" {
		return "", false
	}
	if cluster.LoopbackHost(u.Hostname()) {
		return u.Port(), true
	}
	ip := net.ParseIP(u.Hostname())
	addrs, err := net.InterfaceAddrs()
	if ip == nil || err != nil {
		return "", false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return u.Port(), true
		}
	}
	return "", false
}
