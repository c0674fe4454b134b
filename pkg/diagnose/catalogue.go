package diagnose

// Entry is what is the same for every finding of an ID.
type Entry struct {
	ID    string
	Title string
	Why   string // why it matters
}

// Catalogue lists all findings by ID. IDs are a contract: one is never given a new
// meaning.
func Catalogue() map[string]Entry {
	out := map[string]Entry{}
	for _, e := range entriesOf() {
		out[e.ID] = e
	}
	return out
}

func entriesOf() []Entry {
	return []Entry{
		{"KVD-AUTH-001", "kube-apiserver may not compact", "history grows until the quota is reached, and nothing but a line in the API server's log tells why"},
		{"KVD-AUTH-002", "Members refuse each other's tokens", "a client that has logged in at one member is refused by another, so that its requests fail by chance, and after each change of the connection"},
		{"KVD-CHURN-001", "One key gets most of the writes", "each write of a key is kept until the next compaction, goes through every log, and is sent to every watcher"},
		{"KVD-CHURN-002", "The history of what is written outgrows the quota", "etcd keeps every version of an object until the compaction, whole, however little of it has changed"},
		{"KVD-CORRUPT-001", "A CORRUPT alarm is raised", "etcd has compared its members' hashes and seen them differ; disarming it first would let both histories go on"},
		{"KVD-CORRUPT-002", "Members hold different data", "what a client reads depends on which member it asks, and no member mends it by itself"},
		{"KVD-CORRUPT-003", "A log is damaged", "a start ends on it, or drops what stands behind the damage without a word"},
		{"KVD-CORRUPT-004", "Log and database do not fit", "a start ends, or runs and answers nothing, or goes on without entries that were acknowledged"},
		{"KVD-CORRUPT-005", "A database is damaged", "etcd visits every page when it starts, and ends on one that is not what it should be"},
		{"KVD-CORRUPT-006", "A compaction took fresh keys along", "they were acknowledged and are gone, and nothing says so"},
		{"KVD-DISK-001", "WAL fsync is slow", "each write waits until a quorum has it on disk; above the heartbeat interval the leader itself is thought lost"},
		{"KVD-DISK-002", "Backend commits are slow", "applies and reads wait for a commit, 10 times a second"},
		{"KVD-DISK-003", "A measured disk is too slow", "each write of etcd waits for such a flush on a quorum of members"},
		{"KVD-DISK-004", "A disk is full", "a member ends when it can't write, and does not start until it can, though nothing of it is damaged"},
		{"KVD-LEASE-001", "One lease holds many keys", "its end deletes all of them in one apply, during which the member serves nobody"},
		{"KVD-LEASE-002", "Leases outlive their time", "locks and node leases stay although nobody renews them, so that nobody takes over"},
		{"KVD-LEASE-003", "There are very many leases", "an election begins every one anew, and the leader looks after all of them"},
		{"KVD-LEASE-004", "Leases are made at a high rate", "each is a raft entry and a WAL record on every member, and nothing of that shows in the history or in sizes"},
		{"KVD-LEASE-005", "Keys are on a lease that does not exist", "a lock whose lease is gone is held for ever, and events pile up"},
		{"KVD-MEM-001", "Memory grows suddenly", "the kernel ends the process that has the most, and a member that comes back asks for a snapshot"},
		{"KVD-MEM-002", "A database is larger than the memory for it", "pages that are not in memory are read from the disk while clients wait, and a snapshot or a defragmentation drives out the rest"},
		{"KVD-MEM-003", "Memory is out of proportion to what is stored", "the kernel ends the process that has the most, and a member that begins anew takes long to come back"},
		{"KVD-NET-001", "A member does not answer", "one failure less is survived, and clients that know this member only are cut off"},
		{"KVD-NET-002", "An advertised URL is unusable", "clients that sync their endpoints, and kvd, are led nowhere or to another member"},
		{"KVD-NET-003", "Round trips between members are long", "each write takes one, and heartbeats that are late end in elections"},
		{"KVD-NET-004", "All clients are on one member", "it carries the load of all, and its end moves all of them at once"},
		{"KVD-NET-005", "An endpoint leads into several clusters", "which cluster a client reads and writes is chance, anew with each connection, and nothing fails"},
		{"KVD-OBJECT-001", "A value is near the size limit", "a write a little larger is refused, and the whole object is read and sent with each change"},
		{"KVD-OBJECT-002", "Objects of one resource are bloated", "each change writes, ships and sends a whole object"},
		{"KVD-OPS-001", "A probe fails because of an alarm", "a liveness probe on it restarts etcd again and again; a restart frees nothing, and can end in a lost member"},
		{"KVD-OPS-002", "The newest backup is old", "what was written since is lost with the quorum"},
		{"KVD-OPS-003", "A directory is in use", "its files change while they are read, and nothing may be done to them"},
		{"KVD-OPS-004", "A .snap file is damaged", "etcd 3.7 does not read it when it starts; an older one does"},
		{"KVD-OPS-005", "Files are left over", "they take space on the disk that a defragmentation needs"},
		{"KVD-OPS-006", "Probes ask /health", "it fails as soon as any alarm is raised, so that a liveness probe on it restarts etcd just when it is full"},
		{"KVD-OPS-007", "The revision has gone back", "a watch from a revision that is yet to come waits without an error, so that clients work with what is long gone"},
		{"KVD-RAFT-001", "There is no leader", "nothing can be written, and linearizable reads are not answered"},
		{"KVD-RAFT-002", "The quorum is lost", "nothing that changes the cluster works until enough voters are back, its member list included"},
		{"KVD-RAFT-003", "Elections take place", "each stops writes for about a second, fails requests in flight, and begins every lease anew"},
		{"KVD-RAFT-004", "A member lags", "its serializable reads and watches are old, and it is no help in a failure"},
		{"KVD-RAFT-005", "Applying does not keep up", "clients of this member wait, and above 5000 entries it refuses requests"},
		{"KVD-RAFT-006", "A learner is left over", "it costs the leader like a voter and adds nothing to the failures survived"},
		{"KVD-RAFT-007", "No failure is survived", "the next member that stops, for an update or by itself, makes the cluster read-only"},
		{"KVD-RAFT-008", "A voter never started", "it counts for the quorum from the moment it was added"},
		{"KVD-RAFT-009", "The number of voters is even", "one voter more than an odd number survives no failure more"},
		{"KVD-RAFT-010", "Member lists differ", "members that disagree on who votes can disagree on what is committed"},
		{"KVD-RAFT-011", "A log ends before what is committed", "a member that had acknowledged more than it has ends as soon as a leader reminds it, and cannot be repaired"},
		{"KVD-RAFT-012", "A member is of another cluster", "it and its peers refuse each other, and whoever writes to it writes elsewhere"},
		{"KVD-RAFT-013", "A member is cut off from its leader", "it looks alive and serves the past to whoever reads serializable"},
		{"KVD-READ-001", "Requests are expensive", "each holds memory for its whole answer, and others wait behind it"},
		{"KVD-READ-002", "Linearizable reads are late", "they wait for the leader's word; kube-apiserver's health checks are such reads"},
		{"KVD-READ-003", "Requests wait", "what waits here is no fault of the requests: the machine is busy with something else, or the leader is late"},
		{"KVD-READ-004", "Reads outweigh writes by far", "who polls costs a member processor time and memory for every answer, and a watch would cost it nothing"},
		{"KVD-SPACE-001", "NOSPACE is raised", "the cluster is read-only until the alarm is disarmed, whatever space there is"},
		{"KVD-SPACE-002", "A file is near its quota", "the first member to reach its own quota makes the whole cluster read-only"},
		{"KVD-SPACE-003", "Quotas differ", "each member judges by its own, and the smallest ends the writes of all"},
		{"KVD-SPACE-004", "Free pages use up the quota", "compaction frees pages inside the file, and only a defragmentation gives them back to the quota"},
		{"KVD-SPACE-005", "History piles up", "old revisions count for the quota, and one large compaction later stalls every member"},
		{"KVD-SPACE-006", "The quota will be reached soon", "then the cluster is read-only"},
		{"KVD-SPACE-007", "One resource fills the file", "live data is only freed by deleting it, and whoever writes it goes on"},
		{"KVD-SPACE-008", "The quota is unusual", "without one the disk's end is the limit, which ends the member instead of its writes; very large files make every restart and snapshot slow"},
		{"KVD-SPACE-009", "kube-apiserver does not compact", "history grows with every write until the quota is reached, and the compaction that comes at last stalls every member"},
		{"KVD-TLS-001", "A certificate expires", "from that moment on no new connection is made, between members as well"},
		{"KVD-VERSION-001", "Members run different versions", "the cluster is held at what the oldest can do, and mixed versions are tested for the time of an update only"},
		{"KVD-VERSION-002", "A version with a known fault", "the fault is described, and an update ends it"},
		{"KVD-VERSION-003", "A downgrade is under way", "until it ends or is cancelled the cluster stays at the lower version's abilities"},
		{"KVD-VERSION-004", "An update would fail", "a member that does not start in the middle of an update leaves the cluster one failure from read-only"},
		{"KVD-WATCH-001", "Watchers do not keep up", "events are kept for them and read again and again, and they see the past"},
		{"KVD-WATCH-002", "Many watchers starve on few streams", "the events of all watchers of a stream wait in one queue, so that one that is slow, or one key that changes often, holds up the others"},
	}
}
