package diagnose

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/coreos/go-semver/semver"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wal"
)

// V2 is what users of etcd's v2 API have left in a directory. Up to 3.5 etcd keeps it, also
// where the API has long been switched off; 3.6 does not start on it.
type V2 struct {
	Snap     string   // the .snap file that has keys of theirs; empty: none
	Keys     []string // the first of them
	Requests int64    // in the log behind that file
	First    uint64   // index of the first of these
	What     string   // the first of these: "PUT /1/a"
}

// v2Member is the path at which a member of 3.5 tells its name and client URLs, and v2Version
// that of the cluster's version: what 3.6 takes from the log (v2ToV3Request in
// server/etcdserver/apply_v2.go of 3.6).
var v2Member = regexp.MustCompile(`^/0/members/[[:xdigit:]]{1,16}/attributes$`)

const v2Version = "/0/version"

// readV2 looks at the .snap file that a start of 3.6 takes, and at the log behind it. That a
// damage ends the log is told by its verification.
func (d *Dir) readV2(ctx context.Context) error {
	snap, from := d.newestSnap()
	if snap != "" {
		keys, err := v2Keys(filepath.Join(d.memberDir(), "snap", snap))
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			d.V2.Snap, d.V2.Keys = snap, keys
		}
	}
	o := wal.DefaultDumpOptions()
	o.Types = []string{string(wal.V2Request)}
	_, err := wal.Dump(ctx, d.Log.Dir, o, func(l *wal.Line) error {
		q, ok := l.Body.(*wal.V2)
		if !ok || l.Index <= from || q.Method == "PUT" && (q.Path == v2Version || v2Member.MatchString(q.Path)) {
			return nil
		}
		if d.V2.Requests++; d.V2.Requests == 1 {
			d.V2.First, d.V2.What = l.Index, q.Method+" "+q.Path
		}
		return nil
	})
	if fault.KindOf(err) == fault.Damage {
		return nil
	}
	return err
}

// newestSnap is the newest .snap file that the log knows of (LoadNewestAvailable in
// server/etcdserver/api/snap/snapshotter.go), and its index.
func (d *Dir) newestSnap() (name string, index uint64) {
	for _, s := range d.Snaps {
		var term, at uint64
		if _, err := fmt.Sscanf(s.Name, "%016x-%016x.snap", &term, &at); err == nil && s.Known && s.Damaged == "" && at > index {
			name, index = s.Name, at
		}
	}
	return name, index
}

// v2Node is a node of the v2 store in a .snap file (save in
// server/etcdserver/api/v2store/store.go).
type v2Node struct {
	Path     string
	Children map[string]*v2Node
}

// v2Keys lists some keys beside those of etcd itself: of its members and version (/0) and
// of the v2 API's users and roles (/2). Hidden ones, whose names begin with _, do not keep
// 3.6 from starting (IsMetaStoreOnly in server/etcdserver/api/membership of 3.6).
func v2Keys(path string) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.OfFile(op, path, "data_dir", err)
	}
	var store struct{ Root *v2Node }
	if json.Unmarshal(storeOf(raw), &store) != nil || store.Root == nil {
		return nil, nil // since 3.6 there is none in it
	}
	var out []string
	for top, n := range store.Root.Children {
		if top != "0" && top != "2" {
			n.list(&out)
		}
	}
	return out, nil
}

// storeOf is field 1 of the raftpb.Snapshot that is field 2 of a .snap file.
func storeOf(snap []byte) []byte { return bytesField(bytesField(snap, 2), 1) }

// maxV2Keys is how many keys are named.
const maxV2Keys = 3

func (n *v2Node) list(out *[]string) {
	for name, child := range n.Children {
		switch {
		case len(*out) == maxV2Keys:
			return
		case strings.HasPrefix(name, "_") || child == nil:
		case len(child.Children) > 0:
			child.list(out)
		default:
			*out = append(*out, strings.TrimPrefix(child.Path, "/1"))
		}
	}
}

// updateV2 judges what the directories have of the v2 API.
func (in *Input) updateV2(add addFunc, to *semver.Version) {
	if to.Minor < 6 {
		return
	}
	const drop = "with the v2 API on (etcd 3.5 with --enable-v2), delete what is there, as its users may not have; then start each member without it"
	const anew = "have every member write a snapshot after that: --snapshot-count 1000 for a while, and as many writes"
	for i := range in.Dirs {
		d := &in.Dirs[i]
		if d.V2.Snap != "" {
			add(Critical, d.Path, fmt.Sprintf("the v2 API has left keys (%s and perhaps more): etcd 3.6 does not start on them (\"detected disallowed custom content in v2store\")", strings.Join(d.V2.Keys, ", ")),
				d.V2.Snap, "keys of the v2 API", drop, anew, "kvd diagnose --data-dir "+ShellWord(d.Path)+" --target "+fmt.Sprintf("%d.%d", to.Major, to.Minor))
		}
		if d.V2.Requests > 0 {
			add(Critical, d.Path, fmt.Sprintf("%s of the v2 API in the log, from index %d on (%s): etcd 3.6 panics as it applies the first (\"detected disallowed v2 WAL\")", counted(d.V2.Requests, "request"), d.V2.First, printable([]byte(d.V2.What))),
				d.logArg(), "requests to the v2 API", "see that nobody uses the v2 API, and start each member without --enable-v2", anew, "kvd diagnose --data-dir "+ShellWord(d.Path)+" --target "+fmt.Sprintf("%d.%d", to.Major, to.Minor))
		}
	}
}

// v2Unseen says that of members which may have keys of the v2 API no directory was looked
// at: none of them tells.
func v2Unseen(in *Input) []Missing {
	to := semver.New(in.Target.Version + ".0")
	if to.Minor < 6 || len(in.Dirs) > 0 {
		return nil
	}
	for _, m := range in.view().Answered() {
		if v, ok := parse(m.Status.Version); ok && v.Major == 3 && v.Minor < 6 {
			return []Missing{{Need: NeedTarget, ByChoice: true, Why: "whether the v2 API has left keys, on which etcd 3.6 does not start: a member does not tell, its directory does",
				Hint: "kvd diagnose --data-dir DIR --target " + in.Target.Version + "  # on each member's machine"}}
		}
	}
	return nil
}
