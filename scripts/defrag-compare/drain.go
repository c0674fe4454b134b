package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// front stands before one member like a load balancer or a kube-proxy that can
// take it out: the client's connections end, and new ones are refused.
type front struct {
	address, member string
	mu              sync.Mutex
	listener        net.Listener
	conns           map[net.Conn]bool
}

func newFront(member string) (*front, error) {
	f := &front{member: strings.TrimPrefix(member, "http://"), address: "127.0.0.1:0", conns: map[net.Conn]bool{}}
	return f, f.open()
}

func (f *front) open() error {
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.listener, f.address = l, l.Addr().String()
	f.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return nil
}

func (f *front) serve(client net.Conn) {
	server, err := net.Dial("tcp", f.member)
	if err != nil {
		_ = client.Close()
		return
	}
	f.mu.Lock()
	f.conns[client], f.conns[server] = true, true
	f.mu.Unlock()
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	_, _ = io.Copy(client, server)
	_ = client.Close()
	f.mu.Lock()
	delete(f.conns, client)
	delete(f.conns, server)
	f.mu.Unlock()
}

// drain refuses new connections and ends those there are.
func (f *front) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.listener.Close()
	for c := range f.conns {
		_ = c.Close()
	}
}

// fronts serves the orders of the hooks: POST /NAME/drain and /NAME/restore.
type fronts struct {
	byName map[string]*front
	server *http.Server
	url    string
}

func newFronts(g *group) (*fronts, error) {
	fs := &fronts{byName: map[string]*front{}}
	for i, ep := range g.endpoints {
		f, err := newFront(ep)
		if err != nil {
			return nil, err
		}
		fs.byName[fmt.Sprintf("m%d", i+1)] = f
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	fs.url = "http://" + l.Addr().String()
	fs.server = &http.Server{Handler: fs, ReadHeaderTimeout: time.Second}
	go func() { _ = fs.server.Serve(l) }()
	return fs, nil
}

func (fs *fronts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, order, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	f := fs.byName[name]
	switch {
	case f == nil:
		http.Error(w, "no such member", http.StatusNotFound)
	case order == "drain":
		f.drain()
	case order == "restore":
		if err := f.open(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// endpoints are what the client is given instead of the members' own.
func (fs *fronts) endpoints() []string {
	var out []string
	for i := range len(fs.byName) {
		out = append(out, "http://"+fs.byName[fmt.Sprintf("m%d", i+1)].address)
	}
	return out
}

func (fs *fronts) close() {
	_ = fs.server.Close()
	for _, f := range fs.byName {
		f.drain()
	}
}

// order is what this program does as a hook of kvd: it tells the fronts.
func order(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
