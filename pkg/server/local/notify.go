package local

import (
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// notifySocket receives READY=1 by systemd's protocol: etcd and kvd send it at
// the moment a member has joined its cluster. That is more than an open port,
// and needs no certificate and no password.
type notifySocket struct {
	name  string // for $NOTIFY_SOCKET
	dir   string // to be removed, where the socket is a file
	conn  *net.UnixConn
	ready chan struct{}
}

func listenNotify() (*notifySocket, error) {
	s := &notifySocket{ready: make(chan struct{})}
	if runtime.GOOS == "linux" {
		s.name = "@kvd-" + rand.Text() // an abstract name: no file, no limit on the path
	} else {
		dir, err := os.MkdirTemp("", "kvd-")
		if err != nil {
			return nil, err
		}
		s.dir, s.name = dir, filepath.Join(dir, "notify")
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.name, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	s.conn = conn
	return s, nil
}

// waitFor closes ready when the message comes, and gives up when p has ended.
func (s *notifySocket) waitFor(p *process) {
	go func() {
		select {
		case <-p.exited:
		case <-s.ready:
		}
		s.close()
	}()
	buf := make([]byte, 256)
	for {
		n, err := s.conn.Read(buf)
		if err != nil {
			return
		}
		if strings.Contains(string(buf[:n]), "READY=1") {
			close(s.ready)
			return
		}
	}
}

func (s *notifySocket) close() {
	s.conn.Close()
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}
