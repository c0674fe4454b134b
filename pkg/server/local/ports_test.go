package local

import (
	"runtime"
	"testing"
)

// Ports of a cluster are not given to another one while nobody listens on them, as
// when a member was killed and is started again.
func TestPortsAreClaimed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing tells other processes which ports are taken")
	}
	var a, b Cluster
	ports, err := a.takePorts(3)
	if err != nil || len(ports) != 3 {
		t.Fatal(ports, err)
	}
	for _, p := range ports {
		if b.claim(p) {
			t.Errorf("port %d was given twice", p)
		}
	}
	a.dropClaims()
	if !b.claim(ports[0]) {
		t.Errorf("port %d stays claimed by a cluster that is gone", ports[0])
	}
	b.dropClaims()
}
