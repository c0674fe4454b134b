//go:build long

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// world is a cluster of stock etcd of some version.
type world struct {
	*servertest.Cluster
	version string // 3.4
	release string // 3.4.23, as the members say
	members int

	joins  int              // the member that is added
	leaves int              // and the one that it replaces
	lease  clientv3.LeaseID // one with keys
	saved  string           // a snapshot
}

// outcome is how a command ended.
type outcome struct {
	exit   int
	doc    map[string]any // what -o json printed
	cause  string         // of the error, if there was one
	said   string         // message and hint of the error
	looked string         // the same as a table, for trials that only look
}

func (o outcome) list(key string) []map[string]any {
	all, _ := o.doc[key].([]any)
	var out []map[string]any
	for _, x := range all {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// versionsTried are the versions of stock etcd; the last is what the others are
// compared with.
func versionsTried() []string { return []string{"3.4", "3.5", "3.6", "3.7"} }

// results are the outcomes by version, size of the cluster and trial.
type results struct {
	releases map[string]string
	outcomes map[string]map[int][]outcome
}

// TestEveryVersion tries every live command on running clusters of every
// version, with one member and with three, and holds docs/compatibility.md
// against what came out. With -update it writes the page.
func TestEveryVersion(t *testing.T) {
	for _, c := range liveCommands(t) {
		if !slices.ContainsFunc(versionTrials(), func(tr trial) bool { return tr.command == c }) {
			t.Errorf("`kvd %s` is not tried: add it to versionTrials, or to withoutCluster with a reason", c)
		}
	}
	r := results{releases: map[string]string{}, outcomes: map[string]map[int][]outcome{}}
	for _, v := range versionsTried() {
		r.outcomes[v] = map[int][]outcome{}
		for _, members := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", v, members), func(t *testing.T) {
				r.outcomes[v][members] = tryAll(t, &r, v, members)
			})
		}
	}
	if t.Failed() {
		return
	}
	holdCompatibility(t, r)
}

func tryAll(t *testing.T, r *results, version string, members int) []outcome {
	w := &world{version: version, members: members}
	// With fsync, as in life: without, a commit can be faster than the end of the
	// last reader, and sizes are counted late.
	w.Cluster = servertest.Start(t, servertest.Options{EqualContent: true, Options: local.Options{
		Members: members, QuotaBytes: trialQuota,
		Command: local.Command{Path: stockServer(t, version)},
	}})
	st, err := w.Client(t).Status(t.Context(), w.Endpoint(0))
	if err != nil || !strings.HasPrefix(st.Version, version+".") {
		t.Fatalf("version %s (%v), want a %s", st.Version, err, version)
	}
	w.release, r.releases[version] = st.Version, st.Version
	var all []outcome
	for _, tr := range versionTrials() {
		if members < tr.members {
			all = append(all, outcome{})
			continue
		}
		if tr.before != nil {
			tr.before(t, w)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if tr.during != nil {
				tr.during(t, w)
			}
		}()
		o := w.try(t, tr)
		<-done
		if o.exit == 0 && tr.after != nil {
			tr.after(t, w, o)
		}
		all = append(all, o)
		if t.Failed() {
			t.Fatalf("kvd %s: %d %s %s", tr.name(), o.exit, o.cause, o.said)
		}
	}
	return all
}

func stockServer(t *testing.T, version string) string {
	t.Helper()
	if version == "3.7" {
		return servertest.Reference(t, "etcd")
	}
	return servertest.OldServer(t, version)
}

// try runs one command.
func (w *world) try(t *testing.T, tr trial) outcome {
	t.Helper()
	args := slices.Concat(strings.Fields(tr.command), tr.args, []string{"--endpoints", strings.Join(w.Endpoints()[:w.members], ",")})
	if tr.more != nil {
		args = append(args, tr.more(w)...)
	}
	var o outcome
	out, said := w.run(t, &o, append(args, "-o", "json"))
	if len(out) > 0 {
		for d := json.NewDecoder(bytes.NewReader(out)); d.More(); { // of lines of JSON, the last
			o.doc = nil
			if err := d.Decode(&o.doc); err != nil {
				t.Fatalf("kvd %s: %v in %.300q", tr.name(), err, out)
			}
		}
	}
	if o.exit != 0 {
		lines := bytes.Split(bytes.TrimSpace(said), []byte("\n"))
		var e struct {
			Error struct{ Cause, Message, Hint string }
		}
		if err := json.Unmarshal(lines[len(lines)-1], &e); err != nil || e.Error.Cause == "" || e.Error.Hint == "" {
			t.Errorf("kvd %s: exit %d without cause and hint (%v): %s", tr.name(), o.exit, err, said)
		}
		o.cause, o.said = e.Error.Cause, e.Error.Message+": "+e.Error.Hint
	}
	if tr.look {
		var again outcome
		table, _ := w.run(t, &again, args)
		o.looked = string(table)
		if again.exit != o.exit {
			t.Errorf("kvd %s: exit %d as JSON, %d as a table", tr.name(), o.exit, again.exit)
		}
	}
	return o
}

func (w *world) run(t *testing.T, o *outcome, args []string) (stdout, stderr []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, servertest.Binary(t), args...)
	cmd.Env = append(withoutClusters(os.Environ()), "HOME="+t.TempDir())
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	var err error
	if o.exit, err = exitCodeOf(cmd.Run()); err != nil {
		t.Fatalf("kvd %v: %v\n%s", args, err, said.String())
	}
	return out.Bytes(), said.Bytes()
}

func getRev(rev int64) []clientv3.OpOption { return []clientv3.OpOption{clientv3.WithRev(rev)} }

// differences says how an outcome differs from that of the version that kvd
// embeds, one sentence each. unexplained lists those about which kvd itself says
// nothing to whoever looks.
func differences(o, reference outcome) (said, unexplained []string) {
	if o.exit != reference.exit {
		return []string{fmt.Sprintf("Exit %d, `%s`: %s.", o.exit, o.cause, plainly(o.said))}, nil
	}
	if missing := missingNames(o.doc, reference.doc); len(missing) > 0 {
		said = append(said, "Not told: `"+strings.Join(missing, "`, `")+"`.")
		for _, name := range missing {
			if word := wordFor(name); word == "" || !strings.Contains(o.looked, word) {
				unexplained = append(unexplained, name)
			}
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(findings(o))) {
		if _, also := findings(reference)[cause]; !also {
			said = append(said, fmt.Sprintf("Finding `%s`: %s.", cause, plainly(findings(o)[cause])))
		}
	}
	return said, unexplained
}

// wordFor is what a table shows in place of a value that the server does not
// tell.
func wordFor(name string) string {
	switch {
	case name == "fullest_member":
		return "no effective quota known"
	case strings.HasSuffix(name, "quota_bytes"), strings.HasSuffix(name, "usage_ratio"), strings.HasSuffix(name, "headroom_bytes"), name == "limited_by":
		return "not told"
	case strings.HasSuffix(name, "storage_version"):
		return "STORAGE"
	}
	return ""
}

// missingNames lists the names that the reference document has and this one has
// not; of lists whose length is not the server's doing it takes none.
func missingNames(doc, reference map[string]any) []string {
	have, want := map[string]bool{}, map[string]bool{}
	names("", doc, have)
	names("", reference, want)
	maps.DeleteFunc(want, func(n string, _ bool) bool {
		return have[n] || strings.HasPrefix(n, "findings[]") || strings.HasPrefix(n, "steps[]") || strings.HasPrefix(n, "alarms[]") ||
			strings.HasPrefix(n, "notes[]")
	})
	return slices.Sorted(maps.Keys(want))
}

func names(prefix string, value any, into map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for k, sub := range v {
			names(strings.TrimPrefix(prefix+"."+k, "."), sub, into)
		}
	case []any:
		for _, sub := range v {
			names(prefix+"[]", sub, into)
		}
	case nil:
	default:
		into[prefix] = true
	}
}

func findings(o outcome) map[string]string {
	out := map[string]string{}
	for _, f := range o.list("findings") {
		cause, _ := f["cause"].(string)
		message, _ := f["message"].(string)
		hint, _ := f["hint"].(string)
		if id, ok := f["id"].(string); ok { // of kvd diagnose
			cause, message = id, fmt.Sprint(f["summary"])
			if next, _ := f["remedy"].([]any); len(next) > 0 {
				step, _ := next[0].(map[string]any)
				hint = fmt.Sprint(step["purpose"])
			}
		}
		out[cause] = message + ": " + hint
	}
	return out
}

// plainly takes out of a message what differs from run to run: which member,
// and the patch release.
func plainly(s string) string {
	for _, m := range []struct{ re, with string }{
		{`\bm\d+ \([0-9a-f]{8,16}\)`, "m1"},
		{`etcd 3\.\d+\.\d+`, "etcd VERSION"},
		{`\|`, `\|`},
	} {
		s = regexp.MustCompile(m.re).ReplaceAllString(s, m.with)
	}
	return strings.TrimSuffix(strings.TrimSpace(s), ".")
}
