package cli

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/snapshot"
)

// restoreClusterFlags say what cluster a restore makes: in a plan's file, or one by
// one. Those with names of etcdutl's mean what they mean there.
type restoreClusterFlags struct {
	planFile       string
	members        []string
	initialCluster string
	peerURLs       string
	token          string
	bump           string
	markCompacted  bool
	clearAlarms    bool
	skipHash       bool
	given          func(flag string) bool
}

func (o *restoreClusterFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.planFile, "plan", "", "what --write-plan wrote: the same `file` on every host")
	fs.StringArrayVar(&o.members, "member", nil, "a member of the new cluster, `NAME=PEER_URL`; once for each (default: one, at http://localhost:2380)")
	fs.StringVar(&o.initialCluster, "initial-cluster", "", "the same in one: `m1=URL,m2=URL`")
	fs.StringVar(&o.peerURLs, "initial-advertise-peer-urls", "", "peer URLs of the member that is restored here, where no members are given")
	fs.StringVar(&o.token, "initial-cluster-token", "", "makes the new cluster's ID, with the peer URLs (default: made from the content, the same on every host)")
	fs.StringVar(&o.bump, "bump-revision", "", "lift the revision by `auto|N`, and mark all before as compacted (auto: 1,000,000,000)")
	fs.BoolVar(&o.markCompacted, "mark-compacted", true, "goes with --bump-revision: neither is of use without the other")
	fs.BoolVar(&o.clearAlarms, "clear-alarms", false, "leave out the alarms that are in the file")
	fs.BoolVar(&o.skipHash, "skip-hash-check", false, "take a file whose hash is missing or wrong and whose pages are whole")
}

// recipe makes the part of a restore that is the same on every host.
func (o *restoreClusterFlags) recipe(name string) (snapshot.Recipe, error) {
	if o.planFile != "" {
		for _, flag := range []string{"member", "initial-cluster", "initial-advertise-peer-urls", "initial-cluster-token", "bump-revision", "mark-compacted", "clear-alarms", "skip-hash-check"} {
			if o.given(flag) {
				return snapshot.Recipe{}, restoreUsage("--"+flag+" and --plan: what is the same on every host is in the plan", "write another plan with --write-plan")
			}
		}
		return snapshot.ReadRecipe(o.planFile)
	}
	r := snapshot.Recipe{Token: o.token, ClearAlarms: o.clearAlarms, SkipHashCheck: o.skipHash}
	var err error
	if r.BumpRevision, err = o.bumpBy(); err != nil {
		return r, err
	}
	list := strings.Join(append(o.members, o.initialCluster), ",")
	if list = strings.Trim(list, ","); list == "" {
		var pairs []string
		for _, u := range strings.Split(orDefault(o.peerURLs, "http://localhost:2380"), ",") {
			pairs = append(pairs, orDefault(name, "default")+"="+u)
		}
		list = strings.Join(pairs, ",")
	}
	r.Members, err = snapshot.ParseMembers(list)
	return r, err
}

// bumpBy refuses half of what belongs together: lifted and not compacted, a watch
// from before waits for what was never there; compacted and not lifted, nothing
// tells old revisions from new ones.
func (o *restoreClusterFlags) bumpBy() (int64, error) {
	const hint = "give --bump-revision auto|N, which marks as compacted, or neither"
	var by int64
	switch o.bump {
	case "", "0":
		if o.given("mark-compacted") && o.markCompacted {
			return 0, restoreUsage("--mark-compacted without --bump-revision", hint)
		}
		return 0, nil
	case "auto":
		by = snapshot.AutoBump
	default:
		var err error
		if by, err = strconv.ParseInt(o.bump, 10, 64); err != nil || by < 0 {
			return 0, restoreUsage("--bump-revision "+strconv.Quote(o.bump)+": want auto or a number", "")
		}
	}
	if !o.markCompacted {
		return 0, restoreUsage("--bump-revision without marking as compacted", hint)
	}
	return by, nil
}

// here says which members are restored by this run, and where to.
func (o *snapshotRestoreOptions) here(r snapshot.Recipe) ([]snapshot.RestoreTarget, error) {
	switch {
	case o.writePlan != "":
		if o.all || o.name != "" || o.dataDir != "" || o.walDir != "" || o.planFile != "" {
			return nil, restoreUsage("--write-plan restores nothing, so that --plan, --name, --all, --data-dir and --wal-dir have no meaning with it", "")
		}
		return nil, nil
	case o.all && o.name != "":
		return nil, restoreUsage("--all and --name: give one of them", "")
	case !o.all && o.name == "" && len(r.Members) > 1:
		return nil, restoreUsage("which member is restored here?", "give --name, or --all")
	}
	var out []snapshot.RestoreTarget
	for _, m := range r.Members {
		switch {
		case o.all:
			if filepath.Base(m.Name) != m.Name || m.Name == ".." || m.Name == "." {
				return nil, restoreUsage("the name "+strconv.Quote(m.Name)+" is no name for a folder", "restore it alone, with --name and --data-dir")
			}
			t := snapshot.RestoreTarget{Name: m.Name, DataDir: filepath.Join(o.dataDir, m.Name+".etcd")}
			if o.walDir != "" {
				t.WALDir = filepath.Join(o.walDir, m.Name+".wal")
			}
			out = append(out, t)
		case o.name == "":
			out = append(out, snapshot.RestoreTarget{Name: m.Name, DataDir: orDefault(o.dataDir, m.Name+".etcd"), WALDir: o.walDir})
		}
	}
	if o.name != "" {
		out = append(out, snapshot.RestoreTarget{Name: o.name, DataDir: orDefault(o.dataDir, o.name+".etcd"), WALDir: o.walDir})
	}
	return out, nil
}

func restoreUsage(msg, hint string) error {
	return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "snapshot restore", Msg: msg, Hint: hint}
}
