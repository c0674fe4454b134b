package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"kvd/pkg/ops/fault"
)

// page is an HTTP answer, as far as a probe needs it.
type page struct {
	status int
	server string
	of     string // the ID of the cluster, where etcd's peer port tells it
	body   []byte
}

// maxPage is how much of an answer is read, in bytes: etcd's are short, and
// whatever else is there may not be.
const maxPage = 64 << 10

// getPage asks for one page over a connection and leaves the connection useless.
func getPage(conn net.Conn, host, path string) (page, error) {
	if strings.HasPrefix(host, "/") {
		host = "localhost"
	}
	req := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: kvd\r\nConnection: close\r\n\r\n", path, host)
	if _, err := io.WriteString(conn, req); err != nil {
		return page{}, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return page{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil && len(body) == 0 {
		return page{}, err
	}
	return page{status: resp.StatusCode, server: resp.Header.Get("Server"), of: resp.Header.Get("X-Etcd-Cluster-ID"), body: body}, nil
}

// wantsTLS is how Go's HTTP server, and nginx in its own words, answers plain
// text on a TLS port.
func (p page) wantsTLS() bool {
	return p.status == http.StatusBadRequest && strings.Contains(strings.ToLower(string(p.body)), "https")
}

// etcdVersion is what etcd serves at /version (server/v3/etcdserver/api/etcdhttp).
type etcdVersion struct {
	Server  string `json:"etcdserver"`
	Cluster string `json:"etcdcluster"`
}

// judge says what stands behind an answer to GET /version. get opens further
// connections of the same kind.
func (p *prober) judge(ctx context.Context, version page, get func(context.Context) (net.Conn, error)) *fault.Error {
	var v etcdVersion
	if version.status != http.StatusOK || json.Unmarshal(version.body, &v) != nil || v.Server == "" {
		return p.judgeOther(ctx, version, get)
	}
	// The peer port answers /members, too, with a list; the client port does not
	// know that page.
	if pg, err := p.page(ctx, get, "/members"); err == nil && pg.status == http.StatusOK {
		var members []json.RawMessage
		if json.Unmarshal(pg.body, &members) == nil {
			return &fault.Error{Kind: fault.Unavailable, Cause: CausePeerPort, Msg: "this is etcd's port for its peers (--listen-peer-urls), not for clients",
				Hint: "use the port of --listen-client-urls, usually 2379"}
		}
	}
	return nil
}

// judgeOther is for what serves no /version.
func (p *prober) judgeOther(ctx context.Context, version page, get func(context.Context) (net.Conn, error)) *fault.Error {
	if pg, err := p.page(ctx, get, "/health"); err == nil {
		var h struct {
			Health string `json:"health"`
		}
		if json.Unmarshal(pg.body, &h) == nil && h.Health != "" {
			return &fault.Error{Kind: fault.Unavailable, Cause: CauseMetricsPort, Msg: "this is etcd's port for metrics and health (--listen-metrics-urls), not for clients",
				Hint: "use the port of --listen-client-urls, usually 2379"}
		}
	}
	what := fmt.Sprintf("an HTTP server that answers /version with status %d", version.status)
	if version.server != "" {
		what += fmt.Sprintf(" (%q)", version.server)
	}
	return notEtcd(what)
}

func (p *prober) page(ctx context.Context, get func(context.Context) (net.Conn, error), path string) (page, error) {
	conn, err := get(ctx)
	if err != nil {
		return page{}, err
	}
	defer conn.Close()
	return getPage(conn, p.t.addr, path)
}
