package metrics

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"kvd/pkg/ops/fault"
)

// FetchOf is Fetch for the metrics of a certain member, 0 for any. Each fetch is a
// connection of its own, and behind a load balancer or a Service that may lead to
// another member each time: its numbers, taken for this one's, would be a restart, a
// quota or a defragmentation that there is not. That is an error. A server that does
// not tell its ID is taken at its word, and so is one process of several members.
//
// Source: server/v3 v3.7.3, etcdserver/metrics.go (serverID).
func FetchOf(ctx context.Context, client *http.Client, address string, member uint64) (*Sample, error) {
	s, err := Fetch(ctx, client, address)
	if err != nil || member == 0 {
		return s, err
	}
	ids := s.LabelValues("etcd_server_id", "server_id")
	if len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { n, err := strconv.ParseUint(id, 16, 64); return err != nil || n == member }) {
		return s, nil
	}
	return nil, &fault.Error{Kind: fault.Unavailable, Cause: "metrics_of_another", Op: "read metrics", Subject: address,
		Msg:  fmt.Sprintf("they are of member %s", ids[0]),
		Hint: "something before the members, such as a load balancer, leads to another one each time: give each member's own with --metrics-url NAME=URL"}
}
