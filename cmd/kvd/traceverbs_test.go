package main

import (
	"fmt"
	"slices"
	"strings"
)

// verb is a row of the table of verbs: a step of the trace, and the prefix of
// the keys that it is about. What else happened meanwhile is left out.
type verb struct{ step, shown, about string }

func verbs() []verb {
	const (
		configmaps = "/registry/configmaps"
		events     = "/registry/events"
		pods       = "/registry/pods"
	)
	return []verb{
		{"get-one", "get", configmaps},
		{"get-one-rv0", "get, `resourceVersion=0`", configmaps},
		{"get-missing-404", "get what is not there", configmaps},
		{"list-consistent", "list", configmaps},
		{"list-limit-1", "list, `limit=1`", configmaps},
		{"list-continue", "list, `limit=1`, and its `continue`", configmaps},
		{"list-labels", "list with `-l`", configmaps},
		{"list-rv0", "list, `resourceVersion=0`", configmaps},
		{"list-future-rv-504", "list, `resourceVersion` in the future", configmaps},
		{"watch-from-old-rv", "watch from a revision long gone", configmaps},
		{"watch-list-stream", "watch with `sendInitialEvents`", configmaps},
		{"create-configmap", "create", configmaps},
		{"create-exists-409", "create what exists", configmaps},
		{"patch", "patch", configmaps},
		{"patch-no-change", "patch that changes nothing", configmaps},
		{"apply-server-side", "apply, server side, a new object", configmaps},
		{"replace-stale-409", "get; patch; replace what is stale", configmaps},
		{"delete-configmap", "delete", configmaps},
		{"delete-missing-404", "delete what is not there", configmaps},
		{"deletecollection", "delete a collection (of one)", configmaps},
		{"create-pod", "create a Pod", pods},
		{"bind-pod", "bind it to a node", pods},
		{"delete-pod-graceful", "delete it, with grace", pods},
		{"delete-pod-force", "delete it, by force", pods},
		{"create-node", "create a Node", "/registry/minions"},
		{"node-status-heartbeat", "patch its status", "/registry/minions"},
		{"heartbeat-lease", "renew a Lease", "/registry/leases/demo"},
		{"create-event-ttl", "create an Event", events},
		{"create-event-ttl-2", "create another", events},
		{"update-event-ttl", "patch an Event", events},
		{"create-cr", "create the first custom resource of its kind", "/registry/example.invalid"},
		{"delete-namespace", "delete a Namespace", "/registry/namespaces"},
	}
}

// verbTable lists the requests about an object in the order in which they came.
func verbTable(trace []traceLine) string {
	var out strings.Builder
	out.WriteString("| verb | what etcd is asked, in this order | revisions | watch events |\n|---|---|---:|---|\n")
	for _, v := range verbs() {
		i := slices.IndexFunc(trace, func(l traceLine) bool { return l.Step == v.step })
		asked, revisions, events := requestsAbout(trace, trace[i], v.about)
		if len(asked) == 0 {
			asked = []string{"nothing"}
		}
		fmt.Fprintf(&out, "| %s | %s | %d | %s |\n", v.shown, strings.Join(asked, "; "), revisions, strings.Join(events, ", "))
	}
	return out.String()
}

// requestsAbout are the requests of a step about keys with a prefix, how many
// revisions they made, and the watch events about them.
func requestsAbout(trace []traceLine, step traceLine, prefix string) (asked []string, revisions int, events []string) {
	answers, watched := map[int]traceLine{}, map[int]string{}
	for _, l := range trace {
		if l.Kind == "resp" {
			answers[l.Call] = l
		}
		if l.Watch == "create" {
			watched[l.Call] = l.Key
		}
	}
	repeated := 1
	for _, l := range trace {
		if l.T < step.T || l.T > step.Until {
			continue
		}
		if l.Kind == "resp" && len(l.Events) > 0 && strings.HasPrefix(l.Events[0].Key, prefix) {
			events = append(events, eventInWords(l))
		}
		if l.Kind != "req" || !strings.HasPrefix(aboutKey(l, watched), prefix) {
			continue
		}
		words := inWords(l, answers[l.Call])
		if len(l.Compare) > 0 && answers[l.Call].Succeeded {
			revisions++
		}
		if n := len(asked); n > 0 && strings.TrimSuffix(asked[n-1], fmt.Sprintf(" ×%d", repeated)) == words {
			repeated++
			asked[n-1] = fmt.Sprintf("%s ×%d", words, repeated)
			continue
		}
		asked, repeated = append(asked, words), 1
	}
	return asked, revisions, events
}

// aboutKey is the key that a request is about. Grants belong to Events where
// they live as long as these do.
func aboutKey(l traceLine, watched map[int]string) string {
	switch {
	case len(l.Compare) > 0:
		return l.Compare[0].Key
	case l.Method == "Lease/LeaseGrant" && l.TTL > replayedLeaseTTL:
		return "/registry/events"
	case l.Watch == "progress":
		return watched[l.Call]
	}
	return l.Key
}

func eventInWords(l traceLine) string {
	s := fmt.Sprintf("%s %d B", l.Events[0].Type, l.Bytes)
	if l.Events[0].PrevKV {
		s += " with the old object"
	}
	return s
}

// inWords is a request, and of a transaction whether it came out.
func inWords(l, answer traceLine) string {
	key := func(k string) string { return "`" + strings.TrimPrefix(k, "/registry/") + "`" }
	switch l.Method {
	case "KV/Txn":
		c, o := l.Compare[0], l.Then[0]
		s := fmt.Sprintf("Txn if mod(%s)=%d then %s", key(c.Key), c.Value, opName(o))
		if o.Op == "put" {
			s += fmt.Sprintf(" %d B", o.ValueBytes)
		}
		if len(l.Else) > 0 {
			s += " else get"
		}
		if !answer.Succeeded {
			s += " – **it isn't**"
		}
		return s
	case "KV/Range":
		if isProbe(l) {
			return "probe " + key(l.Key)
		}
		if answer.KVs == 0 {
			return "Range " + key(l.Key) + " – none"
		}
		return "Range " + key(l.Key)
	case "Lease/LeaseGrant":
		return shape(l)
	case "Watch/Watch":
		if l.Watch == "create" {
			return fmt.Sprintf("Watch %s from %d", key(l.Key), l.StartRevision)
		}
		return "progress request"
	}
	_, name, _ := strings.Cut(l.Method, "/")
	return name + " " + key(l.Key)
}

// traceFacts are the figures that the page's sentences have, as they stand there.
func traceFacts(trace []traceLine) []string {
	began, last := startUp(trace), 0.0
	calls, conns, steps, watches, told, leaders, failed := 0, 0, 0, 0, 0, 0, 0
	for _, l := range trace {
		last = max(last, l.T)
		switch {
		case l.Kind == "step":
			steps++
		case l.Kind == "open":
			calls++
			conns = max(conns, l.Conn)
			if l.Method == "Watch/Watch" && l.HasLeader {
				leaders++
			}
		case l.Kind == "req" && l.Watch == "create":
			watches++
			if l.PrevKV && l.ProgressNotify {
				told++
			}
		case l.Kind == "resp" && l.Method == "KV/Txn" && !l.Succeeded:
			failed++
		}
	}
	return []string{
		fmt.Sprintf("%d calls on %d connections in %.0f seconds", calls, conns, last),
		fmt.Sprintf("%d `kubectl` steps", steps),
		fmt.Sprintf("%d of %d watches ask for `prev_kv` and `progress_notify`, and %d demand a leader", told, watches, leaders),
		fmt.Sprintf("start took %.1f seconds", began),
		fmt.Sprintf("Conditions that did not hold: %d.", failed),
	}
}
