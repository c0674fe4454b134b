package diagnose

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/coreos/go-semver/semver"
)

// goneValue is a value of a flag that a version refuses, and does not start with.
type goneValue struct{ flag, value, gone, remedy string }

// goneValues were seen on etcd 3.5, 3.6 and 3.7.
func goneValues() []goneValue {
	return []goneValue{
		{"logger", "capnslog", "3.5", "leave it out: zap is the one there is"},
		{"v2-deprecation", "not-yet", "3.6", "leave it out"},
	}
}

// readValues takes the values of a line that some version refuses, as a flag, a variable
// or a setting has them.
func (m *Manifest) readValues(line string) {
	for i, g := range goneValues() {
		name := strings.ReplaceAll(g.flag, "-", "[-_]")
		if regexp.MustCompile(`(?i)(?:^|[^a-z0-9_-]|--|etcd_)` + name + `["']?(?:\s*[=:]\s*|\s+|["'],\s*)["']?` + g.value + `\b`).MatchString(line) {
			m.Values = append(m.Values, i)
		}
	}
}

// judgeValues looks for values that a version refuses. That which does not have the flag
// either does not come to its value.
func (m Manifest) judgeValues(add addFunc, to *semver.Version) {
	all := goneValues()
	for _, i := range m.Values {
		g := all[i]
		if gone, _, ok := goneIn(g.flag); ok && !to.LessThan(*semver.New(gone + ".0")) {
			continue
		}
		if !to.LessThan(*semver.New(g.gone + ".0")) {
			add(Critical, m.Path, fmt.Sprintf("etcd %s does not know %s for --%s any more, and does not start with it", g.gone, g.value, g.flag), m.Path, g.flag+"="+g.value, g.remedy)
		}
	}
}
