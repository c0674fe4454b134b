package diagnose_test

import (
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// storeIn writes a v2 store into a .snap file, as etcd 3.5 has it: field 1 of a
// raftpb.Snapshot, with what else that had.
func storeIn(t *testing.T, path, store string) {
	t.Helper()
	data := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte(store))
	snap := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))))
	snap = protowire.AppendBytes(protowire.AppendTag(snap, 2, protowire.BytesType), data)
	if err := os.WriteFile(path, snap, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Only what users of the v2 API have stored keeps etcd 3.6 from starting: not its members,
// nor users of the API, nor hidden keys; and only in the newest file.
func TestKeysOfTheV2API(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--snapshot-count=20", "--snapshot-catchup-entries=5"}}})
	client := c.Client(t)
	for range 50 {
		if _, err := client.Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.StopMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	snaps, err := filepath.Glob(filepath.Join(c.DataDir(0), "member", "snap", "*.snap"))
	if err != nil || len(snaps) < 2 {
		t.Fatalf("%q: %v", snaps, err)
	}
	slices.Sort(snaps)
	newest := snaps[len(snaps)-1]
	node := func(path string, children ...string) string {
		return `"` + filepath.Base(path) + `":{"Path":"` + path + `","CreatedIndex":1,"Value":"v","Children":` + map[bool]string{true: "null", false: "{" + strings.Join(children, ",") + "}"}[len(children) == 0] + "}"
	}
	members := node("/0", node("/0/members", node("/0/members/1", node("/0/members/1/attributes"))), node("/0/version"))
	for name, p := range map[string]struct {
		in   string // the file that has it
		tops []string
		want string
	}{
		"members alone":    {newest, []string{members, node("/1")}, ""},
		"a key":            {newest, []string{members, node("/1", node("/1/coreos.com", node("/1/coreos.com/config")))}, "/coreos.com/config"},
		"users of the API": {newest, []string{members, node("/1"), node("/2", node("/2/users", node("/2/users/root")))}, ""},
		"a hidden key":     {newest, []string{members, node("/1", node("/1/_hidden"))}, ""},
		"an older file":    {snaps[0], []string{node("/1", node("/1/a"))}, ""},
	} {
		raw := `{"Root":{"Path":"/","Children":{` + strings.Join(p.tops, ",") + `}},"CurrentIndex":9}`
		if !json.Valid([]byte(raw)) {
			t.Fatalf("%s: %s", name, raw)
		}
		storeIn(t, newest, `{"Root":{"Path":"/","Children":{}}}`)
		storeIn(t, p.in, raw)
		in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
		if err := in.AddDir(t.Context(), c.DataDir(0), diagnose.DirOptions{}, discard); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(in.Dirs[0].V2.Keys, " "); got != p.want || (p.want != "") != (in.Dirs[0].V2.Snap == filepath.Base(newest)) {
			t.Errorf("%s: %+v, want %q", name, in.Dirs[0].V2, p.want)
		}
	}
}
