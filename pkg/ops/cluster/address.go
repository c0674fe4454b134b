package cluster

import (
	"net"
	"net/url"
	"slices"
)

// HostIP returns the IP address in a URL, nil where its host is a name.
func HostIP(raw string) net.IP {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	return net.ParseIP(u.Hostname())
}

// OnLoopback reports that each of the URLs leads to the machine of whoever uses it, as
// etcd's defaults do (http://localhost:2379 and :2380).
func OnLoopback(urls []string) bool {
	return !slices.ContainsFunc(urls, func(raw string) bool {
		u, err := url.Parse(raw)
		return err != nil || !LoopbackHost(u.Hostname())
	})
}

// LoopbackHost reports that a host, without its port, is the machine itself.
func LoopbackHost(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
