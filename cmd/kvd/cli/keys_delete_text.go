package cli

// keysDeleteHelp is the help of kvd keys delete.
func keysDeleteHelp() help {
	return help{
		Long: `
Deletes the keys that have all of --prefix, --resource, --namespace and
--older-than that are given. It is the way out where live data fills the quota:
etcd takes a transaction without a put also under NOSPACE. Deleting makes history
of data, so that the space is free only after kvd alarm recover, or kvd compact
and kvd defrag.

The plan shows keys and bytes of each kind, as of one revision. It is run in
order: a snapshot, then batches of deletions in the order of the keys. A key goes
only if it is still as it was when the plan was made; what was written since is
kept. The same command after an interruption, of whatever kind, deletes what is
left; with the same --snapshot it takes the file that is there, if that is whole
and has all as it is, and saves another beside it (before-2.db) if not.

A batch is one transaction of 128 keys at most, fewer if that takes more than
twice as long as a small write took before, with a pause behind it three times as
long. Small writes in between measure what others feel of it: where these take more
than twice as long as before, the pauses grow. The report has both numbers.

Everything is never deleted. What a cluster does not come back from by itself
(namespaces, secrets, RBAC, CRDs, nodes, volumes, services, workloads, what lives
in kube-system and its like, …) is refused unless --i-mean-it names it. So it is
below an --etcd-prefix that was not told with --kube-prefix: a cluster is known by
its namespaces, or by what it has stored.

For --older-than the age of a Kubernetes object is what kubectl shows as AGE, the
time since its creation. For other keys it is the time since they were last
written, as sampled by kvd compact --schedule --keep-duration --state-dir. Keys
whose age is not known are kept.`,
		Cost: `Planning: the names of the selected keys from one follower, and some 60 values of each kind (all values with
  --older-than), at 64 MiB/s or less; one count of all keys. Running: the snapshot (see kvd snapshot save --help),
  then one raft proposal for up to 128 keys, and an event to each watcher for each key.`,
		Example: `
  kvd keys delete --resource policyreports.wgpolicyk8s.io --dry-run
  kvd keys delete --resource events --older-than 1h --yes
  kvd keys delete --resource configmaps -n team-a --prefix /registry/configmaps/team-a/build- --yes
  kvd keys delete -n team-a --i-mean-it secrets,serviceaccounts --snapshot before.db --yes
  kvd alarm recover --yes             # afterwards: makes the space free, and the cluster writable`,
		Exits: []int{4, 5, 6, 7, 8},
	}
}
