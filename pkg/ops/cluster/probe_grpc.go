package cluster

import (
	"context"
	"io"
	"net"
)

// What HTTP/2 begins with (RFC 9113, sections 3.4 and 4.1): the client says this and its
// settings, here none; the server answers with its own, a frame of the same type.
const (
	h2Preface    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	h2NoSettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	h2FrameType  = 3 // offset of the type in the head of a frame
	h2Settings   = 4
)

// speaksGRPC reports whether a port that does not speak HTTP/1 speaks HTTP/2, as etcd's
// for clients does with --listen-client-http-urls: it serves gRPC then, and no page
// (onlyGRPC in server/v3/embed/serve.go). Whether it is etcd, a request has to tell.
func (p *prober) speaksGRPC(ctx context.Context, get func(context.Context) (net.Conn, error)) bool {
	conn, err := get(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, h2Preface+h2NoSettings); err != nil {
		return false
	}
	var head [len(h2NoSettings)]byte
	_, err = io.ReadFull(conn, head[:])
	return err == nil && head[h2FrameType] == h2Settings
}
