package cli

import (
	"bytes"
	"strings"
	"testing"

	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/fault"
)

// Where no key differs and a member has lost revisions, that is a difference.
func TestDiffOfLostRevisions(t *testing.T) {
	t.Parallel()
	r := &diffReport{Differ: true, Lost: []string{"m2 is at revision 808 although …"}}
	r.finish(&diff.Summary{})
	if err := r.judge(); fault.KindOf(err) != fault.Wanting || !strings.Contains(err.Error(), "m2 is at revision 808") {
		t.Errorf("judged as %v", err)
	}
	var out bytes.Buffer
	if err := r.draw(&out, false); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); !strings.Contains(s, "lost: m2 is at") || !strings.Contains(s, "no key differs at this revision") || strings.Contains(s, "no difference") {
		t.Errorf("shown as\n%s", s)
	}
}
