package loadgen

import "testing"

// Each arm comes first as often as second, and both as often as asked.
func TestTurnsOfAB(t *testing.T) {
	order := ""
	for i := range 10 {
		order += string("AB"[abba(i)])
	}
	if order != "ABBAABBAAB" {
		t.Errorf("%s", order)
	}
}
