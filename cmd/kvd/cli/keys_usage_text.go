package cli

// keysUsageHelp is what `kvd keys usage --help` says.
func keysUsageHelp() help {
	return help{
		Long: `
Says what is stored, in groups of keys: how many there are, what their newest
revisions take (live), how many older ones are kept and what those take
(history), and the records that say that a key was deleted (tombstones); the
largest key of a group, and the one of which most revisions are kept.

SOURCE is a data directory, a backend file (member/snap/db) or a snapshot, plain
or compressed with zstd. Without it, a member of a running cluster is asked.

From a file everything is counted, none of it estimated, and so is what the rest
of the file is used for: other buckets, branch pages, headers and room left in
leaf pages, free pages, meta pages. Each is counted on its own, and together they
are the size of the file; if they are not, that is an error. A file that a running
server holds is read without a lock, and what is read is from one moment, or the
command says that it could not be.

From a member live bytes come from a random sample of the values, with the 95 %
interval beside them, unless --exact is given. What history takes is not known
then, only how many revisions are kept at least.

The groups are a tree by the segments of the names (--depth levels), or, with
--by, prefixes (of Kubernetes' objects: resources), resources, namespaces, leases,
or the kinds that the values say they are.

--since REPORT shows the growth since an earlier report that was made with -o json
and the same groups. --watch 60s counts instead what is written in that time.`,
		Cost: `From a file: one pass over its pages on all cores, and another one for each 2 million keys more; 200 MiB of memory
  at most. Nothing is locked and nothing is written.
  From a member: the names of keys (from the server's memory) and a sample of values, --sample (64 MiB) at most, in
  answers of about 1 MiB, from a follower, without the quorum, at --limit-rate or less. --exact reads every live value.
  --watch is a watch: the member sends all that is written meanwhile, values included.`,
		Example: `
  kvd keys usage                                   # of a running cluster, from a follower
  kvd keys usage /var/lib/etcd                     # of a member's data directory, running or not
  kvd keys usage backup.db.zst --by resource
  kvd keys usage --prefix /registry/pods/ --depth 3 --exact
  kvd keys usage backup.db -o json > monday.json
  kvd keys usage later.db --since monday.json      # what has grown?
  kvd keys usage --watch 60s --by resource         # who writes now?
  kvd keys usage backup.db --by kind -o json | jq '.groups[0]'`,
		Exits: []int{4, 7, 8, 9},
	}
}
