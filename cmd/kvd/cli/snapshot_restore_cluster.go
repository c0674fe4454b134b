package cli

import (
	"fmt"
	"slices"
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
	fs.StringVar(&o.peerURLs, "initial-advertise-peer-urls", "", "peer URLs of the member that is restored here, where no members are given; else they must be the same")
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
				return snapshot.Recipe{}, restoreUsage("--"+flag+" and --plan: what is the same on every host is in the plan", "leave --"+flag+" out; if the plan has it otherwise, write another one with --write-plan")
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
	if r.Members, err = snapshot.ParseMembers(list); err != nil {
		return r, err
	}
	return r, o.checkPeerURLs(r, name)
}

// checkPeerURLs refuses peer URLs of the member that is restored here that are not
// those of the list, as etcdutl does.
func (o *restoreClusterFlags) checkPeerURLs(r snapshot.Recipe, name string) error {
	const flag = "initial-advertise-peer-urls"
	if o.peerURLs == "" {
		return nil
	}
	if name == "" && len(r.Members) == 1 {
		name = r.Members[0].Name
	}
	for _, m := range r.Members {
		if m.Name != name {
			continue
		}
		own, err := snapshot.ParseMembers(name + "=" + strings.ReplaceAll(o.peerURLs, ",", ","+name+"="))
		if err != nil || !slices.Equal(own[0].PeerURLs, m.PeerURLs) {
			return restoreUsage(fmt.Sprintf("--%s is %s, and %s is at %s in the list of members", flag, o.peerURLs, name, strings.Join(m.PeerURLs, ",")), "leave it out: the list says it")
		}
		return nil
	}
	return restoreUsage("--"+flag+" is about the member that is restored here, and --name does not say which that is", "leave it out where --member says it of each")
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

func restoreUsage(msg, hint string) error {
	return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "snapshot restore", Msg: msg, Hint: hint}
}
