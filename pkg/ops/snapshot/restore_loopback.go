package snapshot

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// loopbackNotes tell of a member that no other host can find, where those in the file
// were on hosts: it starts and serves, and who is added to it later is told to find it
// at that member's own loopback.
func (r *Restore) loopbackNotes() []string {
	var out, were []string
	for _, m := range r.Verification.Content.Members {
		if len(m.PeerURLs) > 0 && !onLoopback(m.PeerURLs) {
			were = append(were, m.Name+"="+strings.Join(m.PeerURLs, ","))
		}
	}
	for _, m := range r.Recipe.Members {
		if len(were) == 0 || !onLoopback(m.PeerURLs) {
			continue
		}
		out = append(out, fmt.Sprintf("no other host finds %s at %s: no member can be added to it later, unless its URL is changed before (`etcdctl member update`). The file's members were %s; --member NAME=URL says another one",
			m.Name, strings.Join(m.PeerURLs, ", "), strings.Join(firstFew(were), " ")))
	}
	return out
}

func onLoopback(urls []string) bool {
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil || u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
			return false
		}
	}
	return true
}
