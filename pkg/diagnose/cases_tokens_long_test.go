//go:build long

package diagnose_test

import (
	"testing"

	"kvd/pkg/server/servertest"
)

// Older servers tell of keys that differ as well, and none gives an alarm where all have the
// same, or make simple tokens.
func TestCaseTokenKeysOfOldServers(t *testing.T) {
	t.Parallel()
	one, other := signedBy(t, "one"), signedBy(t, "other")
	const simple = "--auth-token=simple"
	for _, version := range []string{"3.4", "3.5", "3.6"} {
		for name, p := range map[string]struct {
			tokens  []string
			subject string
		}{
			"another pair":  {[]string{one, other, one}, "m2"},
			"simple beside": {[]string{one, one, simple}, "m3"},
			"one pair":      {[]string{one, one, one}, ""},
			"simple ones":   {[]string{simple, simple, simple}, ""},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				c := shape{members: 3, version: version, each: func(i int) []string { return []string{p.tokens[i]} }}.start(t)
				c.EnableAuth(t, servertest.User{Name: "app", Password: "p", Prefix: "/app/"})
				r := look(t, connect(t, c))
				if r.Has("KVD-AUTH-002") != (p.subject != "") {
					t.Fatalf("findings %q, not looked %+v", got(r), r.NotLooked)
				}
				if p.subject != "" && finding(t, r, "KVD-AUTH-002").Subject != p.subject {
					t.Errorf("%+v", finding(t, r, "KVD-AUTH-002"))
				}
			})
		}
	}
}
