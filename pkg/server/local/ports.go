package local

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
)

// Ports are taken from below the range from which the kernel gives ports to
// outgoing connections: from that range any connection of any program could take
// a port while its member restarts.
const (
	lowestPort           = 10240
	defaultEphemeralPort = 32768 // Linux's default first ephemeral port
	portAttempts         = 2000
)

// freePorts returns n different ports on loopback that nobody listens on now.
func freePorts(n int) ([]int, error) {
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
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return nil, fmt.Errorf("found %d of %d in %d tries", len(ports), n, portAttempts)
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
