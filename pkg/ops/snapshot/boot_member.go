package snapshot

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
)

// bootPatience bounds what is asked of the member once it is ready, beside its
// digest, which takes as long as the file is big.
const bootPatience = 30 * time.Second

// examineMember compares a member's content with the file's, and has it take a
// write. Errors say what is wrong with it.
func (r *Restore) examineMember(ctx context.Context, c *local.Cluster, check *BootCheck) error {
	want := r.Verification.Content.Digests.KV
	got, err := memberHash(ctx, c.PeerURL(0), want.Revision)
	if err != nil {
		return err
	}
	check.KV = &got
	if got != want {
		return fault.New(fault.Wanting, fmt.Sprintf("a member started on it has other keys: digest %d at revision %d, compacted %d; the file has %d at %d, compacted %d",
			got.Hash, got.Revision, got.CompactRevision, want.Hash, want.Revision, want.CompactRevision))
	}
	if r.Verification.Content.Auth.Enabled {
		check.NotChecked = append(check.NotChecked,
			"a write and a read of a key: authentication is on, and no password is asked for. The member has entered itself into the cluster, through its log, and answers for its quorum")
		return nil
	}
	check.WrittenRevision, err = writeAndRead(ctx, c.Endpoint(0))
	return err
}

// memberHash asks a member for its digest at a revision, the way members ask each
// other when they look for corruption: that takes no password.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, etcdserver/corrupt.go (hashKVHandler).
func memberHash(ctx context.Context, peerURL string, revision int64) (KVHash, error) {
	failed := func(err error) (KVHash, error) {
		return KVHash{}, fmt.Errorf("its digest of the keys at revision %d: %w", revision, err)
	}
	body, err := json.Marshal(map[string]int64{"revision": revision})
	if err != nil {
		return failed(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, peerURL+"/members/hashkv", bytes.NewReader(body))
	if err != nil {
		return failed(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(raw))
	}
	if err != nil {
		return failed(err)
	}
	var answer struct {
		Hash     uint32 `json:"hash"`
		Compact  int64  `json:"compact_revision"`
		Revision int64  `json:"hash_revision"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return failed(err)
	}
	return KVHash{Algorithm: "etcd-hashkv", Hash: answer.Hash, Revision: answer.Revision,
		CompactRevision: max(0, answer.Compact)}, nil // -1 where nothing was ever compacted
}

// writeAndRead puts a key of its own, reads it back through the quorum and deletes
// it, and returns the revision of the write.
func writeAndRead(ctx context.Context, endpoint string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return 0, err
	}
	defer cli.Close() //nolint:errcheck // everything was answered
	key, value := "kvd-boot-check/"+rand.Text(), rand.Text()
	put, err := cli.Put(ctx, key, value)
	if err != nil {
		return 0, fmt.Errorf("a write: %w", err)
	}
	got, err := cli.Get(ctx, key)
	if err == nil && (len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value || got.Kvs[0].ModRevision != put.Header.Revision) {
		err = errors.New("what was written is not there")
	}
	if err != nil {
		return 0, fmt.Errorf("a read through the quorum: %w", err)
	}
	if _, err := cli.Delete(ctx, key); err != nil {
		return 0, fmt.Errorf("a deletion: %w", err)
	}
	return put.Header.Revision, nil
}
