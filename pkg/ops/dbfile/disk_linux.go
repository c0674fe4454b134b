package dbfile

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openQuietly opens a file without changing its access time, where the system
// lets one: only the owner and root may ask for that. O_NONBLOCK keeps a named
// pipe from hanging the call; it means nothing for regular files.
func openQuietly(path string) (*os.File, error) {
	const flags = os.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK
	file, err := os.OpenFile(path, flags|unix.O_NOATIME, 0)
	if errors.Is(err, unix.EPERM) {
		return os.OpenFile(path, flags, 0)
	}
	return file, err
}

// lockShared takes the shared lock that bbolt's own readers take (bolt_unix.go,
// flock), without waiting. held means that somebody, which is a running server,
// has it for itself. A file system that has no such locks has no holders.
func lockShared(file *os.File) (h Holder, held bool) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return Holder{}, false
	}
	h, _ = HolderOf(file)
	return h, true
}

// HolderOf looks for the process that holds an exclusive lock on a file, without
// taking one: in /proc/locks. A process in another PID namespace is listed there
// without its number, or not at all.
func HolderOf(file *os.File) (h Holder, held bool) {
	pids := locksOf(file, "WRITE")
	if len(pids) == 0 {
		return Holder{}, false
	}
	return holder(pids[0]), true
}

// LockedBy lists the other processes that hold a lock on a database, exclusive or shared,
// as HolderOf finds them. Each keeps a server from opening it, which wants it for itself.
// Of a file that cannot be opened it knows of none.
func LockedBy(path string) []Holder {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close() //nolint:errcheck // nothing was written
	var out []Holder
	for _, pid := range locksOf(file, "WRITE", "READ") {
		if pid != os.Getpid() {
			out = append(out, holder(pid))
		}
	}
	return out
}

// locksOf lists the processes that hold a lock of one of these modes on a file.
func locksOf(file *os.File, modes ...string) []int {
	var st unix.Stat_t
	if unix.Fstat(int(file.Fd()), &st) != nil {
		return nil
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	return parseLocks(string(locks), fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino), modes...)
}

// holder names a process of which /proc/locks has the number.
func holder(pid int) Holder {
	if pid <= 0 {
		return Holder{}
	}
	cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return Holder{PID: pid}
	}
	return Holder{PID: pid, Command: shortCommand(string(cmdline))}
}

// parseLocks finds the processes that hold a lock on an inode, as bbolt takes it
// (FLOCK: WRITE to write, READ to read only) or as etcd takes it on a WAL segment
// (OFDLCK, whose process is -1). A line is "1: FLOCK ADVISORY WRITE 4242 fd:01:1835033 0
// EOF" (proc(5)); waiting ones have "->" behind the number. Some file systems (btrfs,
// overlayfs) show another device than stat does, so that lines with the right inode alone
// will do if all are of one device.
func parseLocks(locks, inode string, modes ...string) []int {
	_, number, _ := cutLast(inode, ":")
	var exact, candidates []int
	var device string
	several := false
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" && f[1] != "OFDLCK" || !slices.Contains(modes, f[3]) {
			continue
		}
		pid, err := strconv.Atoi(f[4])
		if err != nil {
			continue
		}
		if f[5] == inode {
			exact = append(exact, pid)
		}
		if d, n, ok := cutLast(f[5], ":"); ok && n == number {
			several = several || len(candidates) > 0 && d != device
			device, candidates = d, append(candidates, pid)
		}
	}
	if len(exact) > 0 || several {
		return exact
	}
	return candidates
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// readOnce tells the kernel that pages read through this file will not be wanted
// again, so that they do not push out those of a server beside (NOREUSE has that
// effect since Linux 6.3, and none before). It reports whether most of the file
// was out of the cache.
func readOnce(file *os.File, size int64) bool {
	unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_NOREUSE) //nolint:errcheck // advice
	resident, ok := residentBytes(file, size)
	return ok && resident < size/2
}

func dropCache(file *os.File) {
	unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED) //nolint:errcheck // advice
}

// residentBytes asks how much of a file is in the page cache: cachestat(2), since
// Linux 6.5. Not ok means that the kernel does not say.
func residentBytes(file *os.File, size int64) (int64, bool) {
	if size == 0 {
		return 0, false
	}
	r := unix.CachestatRange{Off: 0, Len: uint64(size)}
	var stat unix.Cachestat_t
	err := unix.Cachestat(uint(file.Fd()), &r, &stat, 0)
	if err != nil {
		return 0, false
	}
	return int64(stat.Cache) * int64(syscall.Getpagesize()), true
}
