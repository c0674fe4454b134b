package servertest

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// Balancer shares out connections to these endpoints in turns, and counts them.
func Balancer(tb testing.TB, endpoints ...string) (url string, count *atomic.Int64) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	count = &atomic.Int64{}
	Accept(tb, l, func(conn net.Conn) {
		n := count.Add(1) - 1
		_, addr, _ := strings.Cut(endpoints[int(n)%len(endpoints)], "://")
		go Pipe(conn, addr)
	})
	scheme, _, _ := strings.Cut(endpoints[0], "://")
	return scheme + "://" + l.Addr().String(), count
}

// Accept hands each connection of a listener to serve, one after the other, until the
// test ends.
func Accept(tb testing.TB, l net.Listener, serve func(net.Conn)) {
	tb.Helper()
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
}

// Pipe carries a connection on to an address until either side hangs up.
func Pipe(a net.Conn, to string) {
	b, err := net.Dial("tcp", to)
	if err != nil {
		a.Close()
		return
	}
	defer a.Close()
	defer b.Close()
	go func() { _, _ = io.Copy(b, a); b.Close() }()
	_, _ = io.Copy(a, b)
}
