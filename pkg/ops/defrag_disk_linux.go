package ops

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// freeBytes returns what may still be written to the file system that holds path.
func freeBytes(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:gosec // far below 2^63
}

// diskOfListener finds the process that listens on a TCP port and asks for the
// file system of the backend file it has open. The file is reached through
// /proc, so that this also works for a process in a container. It needs to be
// root or the process's own user; otherwise it finds nothing.
func diskOfListener(port string) (defragDisk, bool) {
	sockets := listeners(port)
	if len(sockets) == 0 {
		return defragDisk{}, false
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd")
	for _, fds := range dirs {
		entries, err := os.ReadDir(fds)
		if err != nil {
			continue
		}
		file, target, listens := "", "", false
		for _, e := range entries {
			path := filepath.Join(fds, e.Name())
			to, err := os.Readlink(path)
			if err != nil {
				continue
			}
			listens = listens || slices.Contains(sockets, to)
			if strings.HasSuffix(to, "/member/snap/db") {
				file, target = path, to
			}
		}
		if !listens || file == "" {
			continue
		}
		free, err := freeBytes(file)
		return defragDisk{dir: filepath.Dir(target), free: free}, err == nil
	}
	return defragDisk{}, false
}

// listeners returns the sockets that listen on a port, as /proc/PID/fd names
// them.
func listeners(port string) []string {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil
	}
	var out []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		for sc := bufio.NewScanner(f); sc.Scan(); {
			// sl local_address rem_address st … inode: proc(5).
			col := strings.Fields(sc.Text())
			if len(col) < 10 || col[3] != "0A" {
				continue
			}
			_, hex, _ := strings.Cut(col[1], ":")
			if p, err := strconv.ParseUint(hex, 16, 16); err == nil && p == n {
				out = append(out, "socket:["+col[9]+"]")
			}
		}
		_ = f.Close()
	}
	return out
}
