package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	goyaml "go.yaml.in/yaml/v3"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"sigs.k8s.io/yaml"

	"kvd/pkg/ops/atomicfile"
	"kvd/pkg/ops/fault"
)

const opRestore = "snapshot restore"

// recipeFormat is what a recipe's file says first. Fields may be added to it; a
// change of meaning is another format.
const recipeFormat = "kvd-restore-1"

// maxRecipe bounds what is read of a recipe's file.
const maxRecipe = 1 << 20

// AutoBump is how far --bump-revision auto lifts the revision. It depends on
// nothing that may differ between the hosts of one restore (a clock, a file's
// time), since members with different revisions are different. It is more than a
// week of AutoBumpRate.
const AutoBump = 1_000_000_000

// AutoBumpRate is how many revisions a second clients are assumed to have seen at
// most since the snapshot: what the busiest Kubernetes clusters write.
const AutoBumpRate = 1500

// Recipe is the part of a restore that is the same for every member: from what it
// is, and what cluster it becomes. It is written once, as YAML, and used on every
// host; a host whose file is another one is refused.
type Recipe struct {
	Format   string         `json:"format"`
	Snapshot RecipeSnapshot `json:"snapshot"`
	// Token makes the IDs of the cluster and its members, with their peer URLs.
	// Where none is given it is made from the content, from what is done with it
	// and from the members: hosts that restore something else get another cluster, whose members do
	// not talk to these.
	Token   string         `json:"initial_cluster_token"`
	Members []RecipeMember `json:"members"`
	// BumpRevision is added to the revision, and everything up to there is
	// marked as compacted. 0 leaves the revision as it is.
	BumpRevision int64 `json:"bump_revision"`
	// ClearAlarms leaves out the alarms that are in the file.
	ClearAlarms bool `json:"clear_alarms"`
	// SkipHashCheck takes a file whose hash is missing or wrong.
	SkipHashCheck bool `json:"skip_hash_check"`
}

// RecipeSnapshot names the file that is restored, by its content.
type RecipeSnapshot struct {
	SHA256    string `json:"sha256"` // of all bytes, where the file is compressed of those inside
	SizeBytes int64  `json:"size_bytes"`
	Revision  int64  `json:"revision"`
}

// RecipeMember is a member of the cluster that comes of it.
type RecipeMember struct {
	Name     string   `json:"name"`
	PeerURLs []string `json:"peer_urls"`
}

// ParseMembers reads members as --initial-cluster writes them: m1=URL,m2=URL; a
// name with more than one URL is there more than once.
func ParseMembers(s string) ([]RecipeMember, error) {
	urls, err := types.NewURLsMap(s)
	if err != nil {
		return nil, recipeError("members", fmt.Sprintf("%q: %v", s, err), "a member is NAME=URL, like m1=https://10.0.0.1:2380")
	}
	var out []RecipeMember
	for name, u := range urls {
		out = append(out, RecipeMember{Name: name, PeerURLs: u.StringSlice()})
	}
	slices.SortFunc(out, func(a, b RecipeMember) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// InitialCluster is the members as --initial-cluster writes them.
func (r *Recipe) InitialCluster() string {
	var pairs []string
	for _, m := range r.Members {
		for _, u := range m.PeerURLs {
			pairs = append(pairs, m.Name+"="+u)
		}
	}
	return strings.Join(pairs, ",")
}

func (r *Recipe) member(name string) (RecipeMember, bool) {
	i := slices.IndexFunc(r.Members, func(m RecipeMember) bool { return m.Name == name })
	if i < 0 {
		return RecipeMember{}, false
	}
	return r.Members[i], true
}

func (r *Recipe) names() []string {
	var out []string
	for _, m := range r.Members {
		out = append(out, m.Name)
	}
	return out
}

// sortedMembers are the members as they are found again.
func (r *Recipe) sortedMembers() []RecipeMember {
	var out []RecipeMember
	for _, m := range r.Members {
		urls := slices.Clone(m.PeerURLs)
		slices.Sort(urls)
		out = append(out, RecipeMember{Name: m.Name, PeerURLs: urls})
	}
	slices.SortFunc(out, func(a, b RecipeMember) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// complete fills in what the file says, or compares it with what the recipe says
// of the file.
func (r *Recipe) complete(s *Status) error {
	own := RecipeSnapshot{SHA256: s.Digests.FileSHA256, SizeBytes: s.SizeBytes, Revision: s.Revision}
	switch planned := r.Snapshot; {
	case planned == RecipeSnapshot{}, planned == own:
	case planned.SHA256 == own.SHA256:
		return &fault.Error{Kind: fault.Refused, Cause: "restore_plan", Op: opRestore, Subject: s.File,
			Msg: fmt.Sprintf("the plan was edited: it says that the snapshot has %d bytes and revision %d, and what has that sha256 has %d and %d",
				planned.SizeBytes, planned.Revision, own.SizeBytes, own.Revision),
			Hint: "write another plan with --write-plan, and use it on every host"}
	default:
		return &fault.Error{Kind: fault.Refused, Cause: "another_snapshot", Op: opRestore, Subject: s.File,
			Msg: fmt.Sprintf("it is not the snapshot of the plan: sha256 %s, revision %d, and the plan is for %s, revision %d",
				short(own.SHA256), own.Revision, short(planned.SHA256), planned.Revision),
			Hint: "every member must be restored from the same file, or they hold different data and never notice: fetch the plan's file to this host"}
	}
	r.Format, r.Snapshot = recipeFormat, own
	if r.BumpRevision > math.MaxInt64/2-own.Revision {
		return recipeError("bump_revision", fmt.Sprintf("%d is too far: revisions are 64 bits", r.BumpRevision), "")
	}
	return r.settleToken()
}

// short makes a digest that people can compare.
func short(sha string) string { return sha[:min(len(sha), 12)] + "…" }

// check looks for what etcd would refuse, or not notice.
func (r *Recipe) check() error {
	if len(r.Members) == 0 {
		return recipeError("members", "there is none", "give each with --member NAME=URL")
	}
	owner := map[string]string{}
	for _, m := range r.Members {
		if m.Name == "" || len(m.PeerURLs) == 0 {
			return recipeError("members", fmt.Sprintf("%q has no name or no peer URL", m.Name), "")
		}
		urls, err := types.NewURLs(m.PeerURLs)
		if err != nil {
			return recipeError("members", m.Name+": "+err.Error(), "")
		}
		for _, u := range urls {
			if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Scheme != "unix" && u.Scheme != "unixs" && (err != nil || port == 0) {
				return recipeError("members", fmt.Sprintf("%s: the port of %s is none", m.Name, u.String()), "a port is 1 to 65535")
			}
		}
		for _, u := range m.PeerURLs {
			if other, taken := owner[u]; taken {
				return recipeError("members", fmt.Sprintf("%s and %s have the same peer URL %s", other, m.Name, u), "")
			}
			owner[u] = m.Name
		}
	}
	if r.BumpRevision < 0 {
		return recipeError("bump_revision", "it cannot go back", "")
	}
	return nil
}

// cluster computes the IDs that etcd will give.
func (r *Recipe) cluster() (*membership.RaftCluster, error) {
	urls, err := types.NewURLsMap(r.InitialCluster())
	if err != nil {
		return nil, recipeError("members", err.Error(), "")
	}
	cl, err := membership.NewClusterFromURLsMap(nil, r.Token, urls)
	if err != nil {
		return nil, recipeError("members", err.Error(), "")
	}
	if len(cl.Members()) != len(r.Members) {
		return nil, recipeError("members", "two of them have the same name", "")
	}
	return cl, nil
}

// ReadRecipe reads a recipe's file. What is in it and not known is an error: a
// restore that leaves out what somebody wanted is another restore.
func ReadRecipe(path string) (Recipe, error) {
	var r Recipe
	f, err := os.Open(path)
	if err != nil {
		return r, fileError("read plan", path, err)
	}
	defer f.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(f, maxRecipe))
	if err != nil {
		return r, fileError("read plan", path, err)
	}
	err = yaml.UnmarshalStrict(raw, &r)
	switch {
	case err == nil && r.Format != recipeFormat:
		err = fmt.Errorf("its format is %q, and this kvd reads %q", r.Format, recipeFormat)
	case err == nil:
		if err = wholeRecipe(raw); err == nil {
			err = r.check()
		}
	}
	if err != nil {
		return r, &fault.Error{Kind: fault.Usage, Cause: "restore_plan", Op: "read plan", Subject: path, Err: err,
			Hint: "`kvd snapshot restore FILE --write-plan PATH …` writes one"}
	}
	return r, nil
}

// wholeRecipe says whether everything is in a recipe's file, once: what was cut off
// or deleted would count as 0, and a second document would not be read.
func wholeRecipe(raw []byte) error {
	docs := goyaml.NewDecoder(bytes.NewReader(raw))
	var r struct {
		Recipe   map[string]any `yaml:",inline"`
		Snapshot map[string]any `yaml:"snapshot"`
	}
	if err := docs.Decode(&r); err != nil {
		return err
	}
	if err := docs.Decode(&goyaml.Node{}); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document in it")
	}
	for _, key := range []string{"initial_cluster_token", "members", "bump_revision", "clear_alarms", "skip_hash_check"} {
		if v := r.Recipe[key]; v == nil || v == "" {
			return fmt.Errorf("%s is missing: a plan has every key that --write-plan wrote", key)
		}
	}
	for _, key := range []string{"sha256", "size_bytes", "revision"} {
		if r.Snapshot[key] == nil {
			return fmt.Errorf("snapshot.%s is missing: a plan has every key that --write-plan wrote", key)
		}
	}
	if sha, ok := r.Snapshot["sha256"].(string); !ok || len(sha) != 2*sha256.Size {
		return errors.New("snapshot.sha256 is none")
	}
	return nil
}

// Write writes the recipe to a file that is not there yet: a plan is written once.
func (r *Recipe) Write(path string) error {
	const op = "write plan"
	raw, err := yaml.Marshal(r)
	if err == nil {
		err = atomicfile.WriteNew(path, raw, 0o644)
	}
	if errors.Is(err, fs.ErrExist) {
		return &fault.Error{Kind: fault.Refused, Cause: "exists", Op: op, Subject: path, Msg: "there is a file of that name",
			Hint: "a plan is written once and used on every host; give another name"}
	}
	if err != nil {
		return fileError(op, path, err)
	}
	return nil
}

// recipeError names what is wrong by the flag that says it, and by its key in a
// plan where that is another.
func recipeError(what, msg, hint string) error {
	named := map[string]string{"members": "members", "bump_revision": "--bump-revision (bump_revision of a plan)"}[what]
	if named == "" {
		named = "--" + strings.ReplaceAll(what, "_", "-")
	}
	return &fault.Error{Kind: fault.Usage, Cause: what, Op: opRestore, Msg: named + ": " + msg, Hint: hint}
}
