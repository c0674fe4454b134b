package ops

import (
	"fmt"

	"kvd/pkg/ops/cluster"
)

// noDowngrade refuses to add a member while a downgrade is under way. Who joins without
// data then asks for a cluster that is one version above its own (allowedVersionRange in
// server/etcdserver/cluster_util.go), and the cluster's version is set to the target within
// seconds: neither the newer nor the older etcd comes in. Seen with 3.6 and 3.7.
func (n *newcomer) noDowngrade(view cluster.View) error {
	target := view.Downgrade()
	if target == "" {
		return nil
	}
	return n.c.refused("downgrade_under_way", n.name,
		fmt.Sprintf("a downgrade to %s is under way, and until it has ended etcd lets nobody join who has no data yet, of whichever version (\"incompatible with current running cluster\")", target),
		"restart the members that are left with "+target+", each with its own data dir, or give it up: etcdctl downgrade cancel; then run this again")
}
