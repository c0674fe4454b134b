package diagnose_test

import "testing"

// Three resources of one namespace fill a member's file, none of them half of it: the
// namespace is named. As much in three namespaces is nobody's.
func TestCaseOneNamespace(t *testing.T) {
	t.Parallel()
	for _, one := range []bool{true, false} {
		space := []string{"ci", "ci", "ci"}
		if !one {
			space = []string{"a", "b", "c"}
		}
		c := begin(t, 1, 16<<20)
		for i, resource := range []string{"secrets", "configmaps", "pods"} {
			put(t, c.Client(t), "/registry/"+resource+"/"+space[i]+"/x", 100, 100, 32<<10)
		}
		settle(t, c)
		r := look(t, connect(t, c))
		if !one {
			belongs(t, r)
			continue
		}
		belongs(t, r, "KVD-SPACE-007 warning")
		if f := finding(t, r, "KVD-SPACE-007"); f.Subject != "namespace ci" {
			t.Errorf("subject %q", f.Subject)
		}
	}
}
