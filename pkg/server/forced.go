package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// forcedWait is how long the other members may take to answer before a forced start.
// One that runs answers its peers at once, also without a quorum.
const forcedWait = 2 * time.Second

// checkForced refuses --force-new-cluster while another member of the cluster runs. The
// new cluster has the old one's ID and has removed the others, so that it answers
// them 410 and they stop (streamHandler in server/v3/etcdserver/api/rafthttp), whatever they
// hold that it lacks. So does a flag that was left in a unit, at the next start, to the
// members that have joined meanwhile. Who they are the database tells: of a member that was
// killed in the first moments of its life it does not yet, and nothing is refused.
func checkForced(ctx context.Context, cfg *embed.Config) error {
	if !cfg.ForceNewCluster {
		return nil
	}
	f, err := dbfile.Open(dbPath(cfg))
	if err != nil {
		return nil //nolint:nilerr // whatever is wrong with the file, etcd says it better
	}
	members, err := f.Members(ctx)
	_ = f.Close() // only read
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	running := whoRuns(ctx, cfg, members)
	if len(running) == 0 {
		return nil
	}
	return &fault.Error{Kind: fault.Refused, Cause: "members_run", Op: opServe, Subject: cfg.Name,
		Msg: "--force-new-cluster makes a cluster of this member alone, and these of it run: " + strings.Join(running, ", ") +
			"; they would be told that they were removed, and stop, whatever they hold that this one lacks",
		Hint: "if a quorum runs nothing has to be forced: start this member without the flag, as after a forced start that was done. If not, stop each of them and choose the one " +
			"with the newest data (kvd diagnose --data-dir DIR --data-dir DIR). For a second cluster of a copy: kvd snapshot restore " + dbPath(cfg) + " --skip-hash-check --data-dir NEW"}
}

// whoRuns names the members that answer at their peer URLs as members of this cluster.
func whoRuns(ctx context.Context, cfg *embed.Config, members []dbfile.Member) []string {
	ctx, cancel := context.WithTimeout(ctx, forcedWait)
	defer cancel()
	web := &http.Transport{DisableKeepAlives: true, TLSClientConfig: peerTLS(cfg)}
	var mu sync.Mutex
	var out []string
	var wg sync.WaitGroup
	for _, m := range members {
		for _, u := range m.PeerURLs {
			wg.Go(func() {
				if isMemberAt(ctx, web, u, m.ID) {
					mu.Lock()
					defer mu.Unlock()
					out = append(out, fmt.Sprintf("%s (%s) at %s", m.Name, types.ID(m.ID), u))
				}
			})
		}
	}
	wg.Wait()
	slices.Sort(out)
	return out
}

// peerTLS is what the server shows its peers. Whom they are is told by what they answer.
func peerTLS(cfg *embed.Config) *tls.Config {
	c, err := cfg.PeerTLSInfo.ClientConfig()
	if err != nil {
		c = &tls.Config{} //nolint:gosec // see below
	}
	c.InsecureSkipVerify = true // nothing is told, and the answer is compared
	return c
}

// isMemberAt asks an etcd's peer port for the members that it knows (peerMembersPath in
// server/v3/etcdserver/api/etcdhttp/peer.go, since 3.0). A member's ID is made of the cluster's
// token and its URLs, so that another cluster's list does not have it.
func isMemberAt(ctx context.Context, web http.RoundTripper, url string, id uint64) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/members", nil)
	if err != nil {
		return false
	}
	resp, err := web.RoundTrip(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	type member struct {
		ID uint64 `json:"id"`
	}
	var list []member
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list) != nil {
		return false
	}
	return slices.Contains(list, member{id})
}
