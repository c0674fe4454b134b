package local

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// gate stands in front of one member's peer port. Its peers reach it there, and
// what comes in names who sends it and to whom: the HTTP headers X-Server-From
// and X-Raft-To of etcd's peer protocol (server/etcdserver/api/rafthttp,
// stream.go and util.go).
type gate struct {
	listener net.Listener

	mu     sync.Mutex
	target string              // host:port of the member
	owner  string              // its ID, once a peer has named it
	shut   bool                // lets nobody in
	banned string              // ID of a member that is not let in; with it nobody who does not say who they are
	open   map[net.Conn]string // what came in, with the ID of its sender, "" if it did not say
	closed bool
}

// headLimit is how much of a connection's first request is read to see who it is
// from, and headTimeout how long that may take.
const (
	headLimit   = 64 << 10
	headTimeout = 10 * time.Second
)

func openGate() (*gate, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{listener: l, open: map[net.Conn]string{}}
	go g.serve()
	return g, nil
}

func (g *gate) url() string { return "http://" + g.listener.Addr().String() }

func (g *gate) aim(target string) { g.mu.Lock(); g.target = target; g.mu.Unlock() }

func (g *gate) id() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owner
}

func (g *gate) serve() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return // closed
		}
		go g.pass(conn)
	}
}

// pass carries one connection until either side ends it or the gate is shut.
func (g *gate) pass(in net.Conn) {
	defer in.Close()
	_ = in.SetReadDeadline(time.Now().Add(headTimeout)) // what it says of itself is in its first bytes
	var head bytes.Buffer
	req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(io.LimitReader(in, headLimit), &head)))
	if err != nil {
		return
	}
	_ = in.SetReadDeadline(time.Time{})
	target, ok := g.enter(in, req.Header)
	if !ok {
		return
	}
	defer g.leave(in)
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	if _, err := out.Write(head.Bytes()); err != nil {
		return
	}
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // ends with either connection
			way[0].Close()
			way[1].Close()
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}

func (g *gate) enter(in net.Conn, h http.Header) (target string, ok bool) {
	from := h.Get("X-Server-From")
	g.mu.Lock()
	defer g.mu.Unlock()
	if to := h.Get("X-Raft-To"); to != "" {
		g.owner = to
	}
	if g.closed || g.refuses(from) {
		return "", false
	}
	g.open[in] = from
	return g.target, true
}

func (g *gate) refuses(from string) bool {
	return g.shut || g.banned != "" && (from == "" || from == g.banned)
}

func (g *gate) leave(in net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, in)
}

// set changes who is let in, and ends the connections of those who no longer are.
func (g *gate) set(shut bool, banned string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.banned = shut, banned
	for conn, from := range g.open {
		if g.refuses(from) {
			conn.Close()
		}
	}
}

func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.listener.Close()
	g.set(true, "")
}
