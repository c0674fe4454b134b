package diagnose

import (
	"fmt"

	"kvd/pkg/ops/metrics"
)

// memory is one member's, at both samples.
type memory struct {
	d        memberDelta
	now, was float64
	db       float64
	keys     float64
	index    float64 // bytes, an estimate
}

// What etcd's index takes of each key and of each revision of one: a keyIndex with a
// generation (server/storage/mvcc/key_index.go), its name, its place in the tree, and
// 16 bytes for a revision in a slice that grows by doubling. Measured with names of 60
// bytes, as Kubernetes' are: TestIndexEstimate.
const (
	indexPerKey      = 280
	indexPerRevision = 24
)

// memories reads what members say of their memory, by name.
func (in *Input) memories() []memory {
	var out []memory
	for _, d := range in.deltas() {
		m := memory{d: d}
		var ok, okBefore bool
		m.now, ok = d.To.Value(metrics.ResidentMemory, nil)
		m.was, okBefore = d.From.Value(metrics.ResidentMemory, nil)
		if !ok || !okBefore {
			continue
		}
		m.db, _ = d.To.Value(metrics.DBSize, nil)
		m.keys, _ = d.To.Value("etcd_debugging_mvcc_keys_total", nil)
		head, _ := d.To.Value("etcd_debugging_mvcc_current_revision", nil)
		from, _ := d.To.Value(metrics.CompactRevision, nil)
		m.index = m.keys*indexPerKey + max(0, head-max(0, from))*indexPerRevision
		out = append(out, m)
	}
	return out
}

// checkMemory looks for a sudden growth: an answer is held in memory as a whole, so
// that full lists by several clients at once are what ends etcd on a machine that
// has just enough. And for more memory than what is stored explains.
func checkMemory() Check {
	return Check{
		Name: "memory", Asks: "does memory stay where it is, and fit what is stored?", IDs: []string{"KVD-MEM-001", "KVD-MEM-003"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			most, measured := -1.0, ""
			for _, m := range in.memories() {
				if m.now > most {
					most, measured = m.now, fmt.Sprintf("the most has %s: %s, with a file of %s and an index of about %s", name(m.d.Member), size(int64(m.now)), size(int64(m.db)), size(int64(m.index)))
				}
				switch {
				case m.now-m.was >= in.Limits.MemoryGrowth:
					out = append(out, m.grown())
				case min(m.now, m.was) >= in.Limits.MemoryFrom && min(m.now, m.was) >= in.Limits.MemoryRatio*(m.db+m.index):
					out = append(out, m.large())
				}
			}
			return out, measured
		},
	}
}

func (m memory) evidence() []Evidence {
	of := m.d.Member
	out := []Evidence{sampled(of, m.d.From, "resident, before", m.was, Bytes), sampled(of, m.d.To, "resident, now", m.now, Bytes), sampled(of, m.d.To, "file", m.db, Bytes),
		sampled(of, m.d.To, "keys", m.keys, Count), sampled(of, m.d.To, "index of the keys, about", m.index, Bytes)}
	if heap, ok := m.d.To.Value("go_memstats_heap_inuse_bytes", nil); ok {
		out = append(out, sampled(of, m.d.To, "heap in use", heap, Bytes))
	}
	return out
}

func (m memory) grown() Finding {
	who := name(m.d.Member)
	return Finding{ID: "KVD-MEM-001", Severity: Warning, Subject: who, Evidence: m.evidence(),
		Summary:     fmt.Sprintf("the memory of %s grew by %s in %s, to %s", who, size(int64(m.now-m.was)), Seconds.Show(m.d.Elapsed().Seconds()), size(int64(m.now))),
		Remedy:      []string{"find who lists everything at once, and page it", "give the machine room for several whole answers beside the file"},
		ExplainedBy: []string{"KVD-READ-001", "KVD-WATCH-001"}}
}

func (m memory) large() Finding {
	who := name(m.d.Member)
	return Finding{ID: "KVD-MEM-003", Severity: Warning, Subject: who, Evidence: m.evidence(),
		Summary: fmt.Sprintf("%s has %s in memory, and what it stores explains %s of that: a file of %s and an index of about %s; the rest are answers, events and log entries in flight",
			who, size(int64(m.now)), size(int64(m.db+m.index)), size(int64(m.db)), size(int64(m.index))),
		Remedy: []string{"kvd diagnose --interval 1m  # while it happens: who lists everything at once, and which watchers lag",
			"--snapshot-catchup-entries (5000) is how many entries of the log stay in memory: many large values make that much"},
		ExplainedBy: []string{"KVD-READ-001", "KVD-WATCH-001", "KVD-WATCH-002"}}
}
