package cli

// diffHelp is the help of kvd diff.
func diffHelp() help {
	return help{
		Long: `
Compares two key spaces, key by key, and says what became of each key on the way
from A to B:

  added, removed  B has it and A has not, or the reverse
  changed         another value. Of an object of Kubernetes, which fields
  recreated       deleted and made anew, with the same value or another one
  lease changed   the same value on another lease
  touched         written again with the same value, how many times
  transient       with --history: made and deleted in between, so that neither has it

A side is one of

  @1200 @head @-500      a revision of the running cluster; -500: so many before the head
  backup.db[.zst]        a snapshot or backend file, at its latest revision
  /var/lib/etcd          a data directory, its member's file
  member:m2              a member, by name or ID
  …@1200                 each of the last three at another revision

Two members are compared at one revision that all have, each from its own data.
Where they differ, the others are asked too (of 1000 keys at most), and who is in
the minority is named. A member that has applied as much of the log as the others
and is at a lower revision has lost something: it is named, and the exit status is 3.

A revision that was compacted cannot be a side: etcd has it no more, and what was
deleted before the oldest revision nobody can tell. The oldest, and the head, are
in the error.

Output is a stream, in the order of the keys; -o json is a line for each key and
one with the summary. Values of Secrets are masked, unless --show-values.`,
		Cost: `Of one member at two revisions: the names of the selected keys twice, and the values of what differs. From two places
  every selected value, at --limit-rate (64 MiB/s) or less, unless --trust-revisions, which two members refuse; a file is read twice at most, past
  the page cache of whoever uses it. Two files are read on all cores, once for each million of keys, and again only where
  they differ. --history reads the changes since the earlier revision by a watch. --hash has each member in turn stand
  still while it reads all it has. Memory is bounded, whatever the size.`,
		Example: `
  kvd diff @-500 @head                        # what were the last 500 revisions?
  kvd diff backup.db.zst @head --stat         # what has changed since the backup?
  kvd diff mon.db tue.db -n payments --ignore managedFields,status
  kvd diff before.db after.db --by namespace
  kvd diff @1200 @1900 --history --resource pods -o json | jq -r 'select(.kind == "transient").key'
  kvd diff member:m1 member:m2                # are they the same, and if not, who is wrong?`,
		Exits: []int{3, 4, 5, 6, 7, 8, 9},
	}
}
