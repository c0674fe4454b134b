package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// Ports are taken from below the range from which the kernel gives ports to
// outgoing connections: from that range any connection of any program could take
// a port while its member restarts.
const (
	lowestPort           = 10240
	defaultEphemeralPort = 32768 // Linux's default first ephemeral port
	portAttempts         = 2000
)

// takePorts returns n different ports on loopback that nobody listens on now, and that
// no other Cluster of this machine takes before this one is closed: also not while a
// member is down that had one of them.
func (c *Cluster) takePorts(n int) ([]int, error) {
	end := ephemeralStart()
	held := make([]net.Listener, 0, n)
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	ports := make([]int, 0, n)
	for range portAttempts {
		if len(ports) == n {
			return ports, nil
		}
		port := 0 // the kernel's choice, where its range leaves us nothing
		if end > lowestPort+1000 {
			port = lowestPort + rand.IntN(end-lowestPort)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		held = append(held, l)
		port = l.Addr().(*net.TCPAddr).Port
		if c.claim(port) {
			ports = append(ports, port)
		}
	}
	return nil, fmt.Errorf("found %d of %d in %d tries", len(ports), n, portAttempts)
}

// claim reports whether a port is this cluster's now. What tells others is a socket in
// Linux's abstract name space, which belongs to the network namespace as ports do, and
// is gone with the process (unix(7)). Other systems have none, and no claims.
func (c *Cluster) claim(port int) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	l, err := net.Listen("unix", fmt.Sprintf("@kvd/port/%d", port))
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims = append(c.claims, l)
	return true
}

func (c *Cluster) dropClaims() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.claims {
		l.Close()
	}
	c.claims = nil
}

// ephemeralStart is the first port that the kernel gives to outgoing
// connections.
func ephemeralStart() int {
	raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return defaultEphemeralPort
	}
	var first, last int
	if _, err := fmt.Fscan(strings.NewReader(string(raw)), &first, &last); err != nil {
		return defaultEphemeralPort
	}
	return first
}
