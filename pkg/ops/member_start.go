package ops

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kvd/pkg/ops/cluster"
)

// MemberStart is how a member that was added has to be started: exactly what
// depends on the cluster, and a guess where clients will find it.
type MemberStart struct {
	ID                  string   `json:"id,omitempty"` // once the member was added
	Name                string   `json:"name"`
	PeerURLs            []string `json:"initial_advertise_peer_urls"`
	InitialCluster      string   `json:"initial_cluster"`
	InitialClusterState string   `json:"initial_cluster_state"` // always "existing"
	ClientURLs          []string `json:"advertise_client_urls"`
	ClientURLsGuessed   bool     `json:"advertise_client_urls_guessed,omitempty"`
	Args                []string `json:"args"` // etcd's flags, all of the above in them
	Env                 []string `json:"env"`  // the same as etcd's environment variables, NAME=VALUE
	Kvd                 string   `json:"kvd"`  // the whole line
	Etcd                string   `json:"etcd"` // the same for stock etcd
}

// StartOf works out how to start a member at these peer URLs. gone is a member
// that will have been removed by then, 0 for none.
//
// etcd compares the members in --initial-cluster with those of the cluster by
// number and peer URL (ValidateClusterAndAssignIDs in server/v3/etcdserver/api/
// membership), so that members that never started have to be in it too. The names
// of the others are labels for the start only, but two members under one name
// would be read as one.
func StartOf(view cluster.View, name string, peerURLs, clientURLs []string, gone uint64) MemberStart {
	s := MemberStart{Name: name, PeerURLs: peerURLs, InitialClusterState: "existing", ClientURLs: clientURLs}
	if len(clientURLs) == 0 {
		s.ClientURLs, s.ClientURLsGuessed = guessClientURLs(view, peerURLs), true
	}
	used, pairs := map[string]bool{name: true}, []string{}
	for _, m := range view.Members {
		if m.ID == gone || overlap(m.PeerURLs, peerURLs) {
			continue
		}
		label := nameFor(m)
		if unlistable(label) { // as a member has that was renamed when it was restarted
			label = nameFor(cluster.Member{ID: m.ID})
		}
		if used[label] {
			label += "-" + cluster.FormatID(m.ID)
		}
		used[label] = true
		for _, u := range m.PeerURLs {
			pairs = append(pairs, label+"="+u)
		}
	}
	for _, u := range peerURLs {
		pairs = append(pairs, name+"="+u)
	}
	s.InitialCluster = strings.Join(pairs, ",")
	s.write(view)
	return s
}

// unlistable reports a name that etcd cannot read in --initial-cluster (parse in client/pkg/
// types/urlsmap.go).
func unlistable(name string) bool { return strings.ContainsAny(name, ",=") }

// write fills in the forms of the start.
func (s *MemberStart) write(view cluster.View) {
	set := func(flag, value string) {
		s.Args = append(s.Args, "--"+flag+"="+value)
		s.Env = append(s.Env, "ETCD_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))+"="+value)
	}
	set("name", s.Name)
	set("initial-advertise-peer-urls", strings.Join(s.PeerURLs, ","))
	set("listen-peer-urls", strings.Join(listenURLs(s.PeerURLs), ","))
	set("advertise-client-urls", strings.Join(s.ClientURLs, ","))
	set("listen-client-urls", strings.Join(listenURLs(s.ClientURLs), ","))
	set("initial-cluster", s.InitialCluster)
	set("initial-cluster-state", s.InitialClusterState)
	if q := view.EffectiveQuota(); q > 0 && q != cluster.DefaultQuota {
		set("quota-backend-bytes", fmt.Sprint(q))
	}
	words := make([]string, 0, len(s.Args)+1)
	for _, a := range append(s.Args, "--data-dir="+emptyDir) {
		words = append(words, shellWord(a))
	}
	s.Kvd, s.Etcd = "kvd serve "+strings.Join(words, " "), "etcd "+strings.Join(words, " ")
}

// In a whole line these stand for the data dir of a member that joins, and of one
// that has joined before.
const emptyDir, ownDir = "EMPTY_DIR", "ITS_OWN_DATA_DIR"

// again makes it the start of a member that has joined before.
func (s *MemberStart) again() {
	for _, line := range []*string{&s.Kvd, &s.Etcd} {
		*line = strings.TrimSuffix(*line, emptyDir) + ownDir
	}
}

// goOnWith says how to bring in a member that was added and never started. Its
// name is known to whoever added it and to nobody else: etcd learns it from the
// member itself, once that serves (publishV3 in server/v3/etcdserver).
func goOnWith(m cluster.Member) string {
	return "etcd has no name of a member before it has started; to go on with it, give the name it was to have: kvd member add NAME --peer-urls " +
		shellWord(strings.Join(m.PeerURLs, ",")) + " shows the line to start it with, and waits for it"
}

// flags is the short form: what must be right for the member to join.
func (s MemberStart) flags() string {
	return fmt.Sprintf("--name=%s --initial-advertise-peer-urls=%s --initial-cluster=%s --initial-cluster-state=existing and an empty data dir",
		shellWord(s.Name), shellWord(strings.Join(s.PeerURLs, ",")), shellWord(s.InitialCluster))
}

// notes tell a person how to start the member.
func (s MemberStart) notes() []string {
	out := []string{"start it with an empty data dir: " + s.Kvd}
	also := "(stock etcd takes the same flags) add what the other members have besides: certificates, --auth-token, --snapshot-count, …"
	if s.ClientURLsGuessed {
		also += "; its client URLs are a guess from its peer URLs (--client-urls says otherwise)"
	}
	return append(out, also)
}

// listenURLs are where to listen for URLs that are advertised: etcd listens on IP
// addresses only, so that a name becomes "everywhere".
func listenURLs(advertised []string) []string {
	var out []string
	for _, a := range advertised {
		u, err := url.Parse(a)
		if err == nil && u.Port() != "" && net.ParseIP(u.Hostname()) == nil && u.Hostname() != "localhost" {
			u.Host = "0.0.0.0:" + u.Port()
			a = u.String()
		}
		out = append(out, a)
	}
	return out
}

// guessClientURLs takes the new member's hosts, and scheme and port as most of the
// others have them.
func guessClientURLs(view cluster.View, peerURLs []string) []string {
	count := map[[2]string]int{}
	for _, m := range view.Members {
		for _, c := range m.ClientURLs {
			if u, err := url.Parse(c); err == nil && u.Port() != "" {
				count[[2]string{u.Scheme, u.Port()}]++
			}
		}
	}
	best := [2]string{"http", "2379"}
	var kinds [][2]string
	for k := range count {
		kinds = append(kinds, k)
	}
	if len(kinds) > 0 {
		slices.SortFunc(kinds, func(a, b [2]string) int {
			return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
		})
		best = kinds[0]
	}
	var out []string
	for _, p := range peerURLs {
		u, err := url.Parse(p)
		if err != nil {
			continue
		}
		out = append(out, best[0]+"://"+freeAddress(view, u, best[1]))
	}
	return out
}

// freeAddress is the host of the new member's peer URL with the port, or where a
// member has that already, as on one machine, with a port beside that of the peer
// URL: 2379 and 2380 are neighbours as a rule. It is never an address in anybody's
// URLs.
func freeAddress(view cluster.View, peer *url.URL, port string) string {
	host := peer.Hostname()
	used := map[string]bool{address(peer.String()): true}
	for _, m := range view.Members {
		for _, u := range slices.Concat(m.ClientURLs, m.PeerURLs) {
			used[address(u)] = true
		}
	}
	beside, _ := strconv.Atoi(peer.Port()) // 0 without one, and nothing is tried then
	for try := 1; used[address("//"+net.JoinHostPort(host, port))] && try < beside; try++ {
		port = strconv.Itoa(beside - try)
	}
	return net.JoinHostPort(host, port)
}

// address is where a URL leads to: loopback has several names.
func address(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL
	}
	host := u.Hostname()
	if cluster.LoopbackHost(host) {
		host = "loopback"
	}
	return net.JoinHostPort(host, u.Port())
}

// shellWord quotes a word for a shell where it needs it; the brackets of an IPv6
// address are a pattern to a shell, and zsh does not run what none matches.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=./:,@%+", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
