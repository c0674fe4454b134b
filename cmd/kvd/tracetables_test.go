package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kvd/pkg/ops/kube/keys"
)

// update has TestTraceTables write its tables instead of comparing them; `make
// docs` gives it.
var update = flag.Bool("update", false, "write the tables of docs/how-kubernetes-uses-etcd.md instead of comparing them")

const tracePage = "docs/how-kubernetes-uses-etcd.md"

// TestTraceTables holds what the page about Kubernetes shows against the
// recorded trace: its tables stand between "<!-- trace NAME -->" and "<!-- end
// -->" and are made here, and so are the figures in its sentences.
func TestTraceTables(t *testing.T) {
	path := filepath.Join(repoRoot, tracePage)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	trace, page := readTrace(t), string(raw)
	for name, table := range traceTables(trace) {
		part := regexp.MustCompile(`(?s)<!-- trace ` + name + ` -->\n.*?<!-- end -->`)
		found := part.FindString(page)
		want := "<!-- trace " + name + " -->\n" + table + "<!-- end -->"
		switch {
		case found == "":
			t.Errorf("%s has no place for the table %q", tracePage, name)
		case *update:
			page = strings.ReplaceAll(page, found, want)
		case found != want:
			t.Errorf("the table %q is out of date: run `make docs`; now\n%s", name, table)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	words := strings.Join(strings.Fields(page), " ")
	for _, fact := range traceFacts(trace) {
		if !strings.Contains(words, fact) {
			t.Errorf("%s does not say %q", tracePage, fact)
		}
	}
}

// TestKeysOnThePage holds the table of where things are against the package
// that reads keys.
func TestKeysOnThePage(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(repoRoot, tracePage))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)`.* \\| `(/registry/.+)` \\|$").FindAllStringSubmatch(string(raw), -1)
	for _, row := range rows {
		if k, ok := keys.Default().Parse(row[2]); !ok || k.Resource != row[1] {
			t.Errorf("%s is shown as %s, and read as %+v (%v)", row[2], row[1], k, ok)
		}
	}
	if len(rows) < 8 {
		t.Errorf("%d rows were looked at", len(rows))
	}
}

func traceTables(trace []traceLine) map[string]string {
	return map[string]string{
		"requests": requestTable(trace),
		"verbs":    verbTable(trace),
		"idle":     idleTable(trace),
	}
}

// startUp is when the API server had started and the first kubectl step began.
func startUp(trace []traceLine) float64 {
	return trace[slices.IndexFunc(trace, func(l traceLine) bool { return l.Kind == "step" })].T
}

// shape is a request without its keys and numbers.
func shape(l traceLine) string {
	switch l.Method {
	case "KV/Range":
		switch {
		case l.CountOnly:
			return "Range of a prefix, count only"
		case isProbe(l):
			return "Range of a resource's name, limit 1"
		default:
			return "Range of one key"
		}
	case "KV/RangeStream":
		return "RangeStream of a prefix"
	case "KV/Txn":
		s := "Txn if " + map[string]string{"MOD": "mod revision", "VERSION": "version"}[l.Compare[0].Target] + " is "
		if l.Compare[0].Value == 0 {
			s += "0"
		} else {
			s += "N"
		}
		s += ", then " + opName(l.Then[0])
		if len(l.Else) > 0 {
			s += ", else " + opName(l.Else[0])
		}
		return s
	case "Lease/LeaseGrant":
		return fmt.Sprintf("LeaseGrant, %d s", l.TTL)
	case "Watch/Watch":
		if l.Watch == "create" {
			return "Watch"
		}
		return "progress request on a watch"
	}
	_, name, _ := strings.Cut(l.Method, "/")
	return name
}

// opName is an operation of a transaction in words.
func opName(o traceOp) string {
	switch {
	case o.Op == "delete_range":
		return "delete"
	case o.Op == "range":
		return "get"
	case o.Lease != "":
		return "put with lease"
	}
	return o.Op
}

// isProbe tells the reads that ask for a revision only: of a key that ends
// where an object's key would go on with a slash, so that it never exists.
func isProbe(l traceLine) bool {
	return l.Method == "KV/Range" && l.Limit == 1 && probeKey.MatchString(l.Key)
}

var probeKey = regexp.MustCompile(`^/registry/(services/specs|services/endpoints|[a-z0-9.]+\.[a-z0-9.]+/[a-z]+|[a-z]+)$`)

// requestTable counts the requests by shape, before and after the start.
func requestTable(trace []traceLine) string {
	began := startUp(trace)
	var order []string
	count := map[string][2]int{}
	for _, l := range trace {
		if l.Kind != "req" {
			continue
		}
		s := shape(l)
		if _, ok := count[s]; !ok {
			order = append(order, s)
		}
		n := count[s]
		if l.T < began {
			n[0]++
		} else {
			n[1]++
		}
		count[s] = n
	}
	slices.SortStableFunc(order, func(a, b string) int { return count[b][0] + count[b][1] - count[a][0] - count[a][1] })
	var out strings.Builder
	out.WriteString("| request | start | then | what for |\n|---|---:|---:|---|\n")
	for _, s := range order {
		fmt.Fprintf(&out, "| %s | %d | %d | %s |\n", s, count[s][0], count[s][1], purposes()[s])
	}
	return out.String()
}

// purposes says what the API server wants with each shape of request.
func purposes() map[string]string {
	return map[string]string{
		"Range of a resource's name, limit 1":                     "the store's revision now: `/registry/pods` itself never exists. Before a consistent list, and to count objects for a metric",
		"Range of one key":                                        "get, the first half of a delete, controllers' own reads, `/registry/health`",
		"Range of a prefix, count only":                           "number of Events, which have no cache to count in",
		"RangeStream of a prefix":                                 "fill a resource's watch cache; list what has no cache (`masterleases`)",
		"Txn if mod revision is 0, then put":                      "create",
		"Txn if mod revision is N, then put, else get":            "update, patch, apply, status, graceful delete",
		"Txn if mod revision is N, then put with lease, else get": "the same for Events and the API server's own leases",
		"Txn if mod revision is 0, then put with lease":           "create an Event",
		"Txn if mod revision is 0, then put, else get":            "create what may be there already",
		"Txn if mod revision is 0, then put with lease, else get": "the API server's own leases, for the first time",
		"Txn if mod revision is N, then delete, else get":         "delete",
		"Txn if version is 0, then put, else get":                 "the first round of compaction: `compact_rev_key`",
		"Txn if version is N, then put, else get":                 "whose turn it is to compact: `compact_rev_key`",
		"Compact":                     "up to the revision of the round before",
		"Watch":                       "one for each resource, and one on `compact_rev_key`",
		"progress request on a watch": "up to which revision has this watch seen everything?",
		"LeaseGrant, 15 s":            "the API server's own leases: a new one each time, never kept alive",
		"LeaseGrant, 3660 s":          "Events: one for up to 1000 of them in a minute",
		"Status":                      "which version is this etcd? Once for each endpoint",
	}
}

// idleTable shows what goes on while nobody types: how often, and how much.
func idleTable(trace []traceLine) string {
	groups := []struct{ key, label, why string }{
		{"/registry/masterleases/", "`masterleases/IP`", "I am here (the `kubernetes` Service's endpoints): get, grant, put, list"},
		{"/registry/peerserverleases/", "`peerserverleases/ID`", "the same, for API servers that forward to each other"},
		{"/registry/services/endpoints/default/kubernetes", "`services/endpoints/default/kubernetes`", "are the endpoints still right?"},
		{"/registry/endpointslices/default/kubernetes", "`endpointslices/default/kubernetes`", "the same as a slice"},
		{"/registry/leases/kube-system/apiserver-", "`leases/kube-system/apiserver-ID`", "the API server's identity"},
		{"compact_rev_key", "`compact_rev_key`", "whose turn it is to compact (here each 20 s, by default each 5 minutes)"},
	}
	var out strings.Builder
	out.WriteString("| key | reads | writes | seconds between writes | why |\n|---|---:|---:|---:|---|\n")
	began := startUp(trace)
	for _, g := range groups {
		reads, writes := 0, []float64{}
		for _, l := range trace {
			if l.Kind != "req" || l.T < began {
				continue
			}
			switch {
			case strings.HasPrefix(l.Key, g.key) && l.Watch == "":
				reads++
			case len(l.Compare) > 0 && strings.HasPrefix(l.Compare[0].Key, g.key):
				writes = append(writes, l.T)
			}
		}
		fmt.Fprintf(&out, "| %s | %d | %d | %s | %s |\n", g.label, reads, len(writes), everySeconds(writes), g.why)
	}
	return out.String()
}

// everySeconds is the median time between events.
func everySeconds(at []float64) string {
	if len(at) < 3 {
		return "–"
	}
	var gaps []float64
	for i := range at[1:] {
		gaps = append(gaps, at[i+1]-at[i])
	}
	slices.Sort(gaps)
	return fmt.Sprintf("%.0f", gaps[len(gaps)/2])
}
