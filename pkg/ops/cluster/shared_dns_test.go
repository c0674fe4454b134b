package cluster_test

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"testing"

	"kvd/pkg/server/servertest"
)

// nameServer answers any question for addresses of IPv4 with these, in this order, and has
// the resolver of this process ask it.
func nameServer(t *testing.T, addrs ...string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = before; conn.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(nameAnswer(b[:n], addrs), from)
		}
	}()
}

// nameAnswer is the answer to one question (RFC 1035, section 4).
func nameAnswer(question []byte, addrs []string) []byte {
	end := 12 + slices.Index(question[12:], 0) + 5 // the name, its end, type and class
	out := slices.Clone(question[:end])
	binary.BigEndian.PutUint16(out[2:], 0x8180) // an answer, without an error
	clear(out[6:12])
	if binary.BigEndian.Uint16(out[end-4:]) != 1 {
		return out
	}
	binary.BigEndian.PutUint16(out[6:], uint16(len(addrs)))
	for _, a := range addrs {
		out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name above, its address, to be kept for 0 s, 4 bytes
		out = append(out, net.ParseIP(a).To4()...)
	}
	return out
}

// A name that has the addresses of two clusters leads into both, though each new connection
// goes to the first that answers.
func TestNameOfTwoClusters(t *testing.T) {
	a, b := servertest.Start(t, servertest.Options{}), servertest.Start(t, servertest.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	second, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skipf("no second address on the loopback: %v", err)
	}
	forward(t, l, a.Endpoint(0))
	forward(t, second, b.Endpoint(0))
	nameServer(t, "127.0.0.1", "127.0.0.2")
	v := view(t, connect(t, ep("http://etcd.two.test:"+port)))
	if len(v.Strangers) != 1 || !v.Strangers[0].Shared || v.Strangers[0].ClusterID == v.ID {
		t.Errorf("strangers %+v", v.Strangers)
	}
}

// forward passes each connection to an endpoint.
func forward(t *testing.T, l net.Listener, endpoint string) {
	t.Helper()
	servertest.Accept(t, l, func(conn net.Conn) { go servertest.Pipe(conn, hostOf(endpoint)) })
}
