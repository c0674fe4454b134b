package diagnose

import (
	"fmt"
	"time"

	"kvd/pkg/ops/metrics"
)

// keptHistory is for how long kube-apiserver keeps history at most: every 5 min it
// compacts to where it was 5 min before (storage/etcd3/compact.go).
const keptHistory = 10 * time.Minute

// checkWritten sets the bytes that are written against the quota. Counting writes does
// not show what large objects cost that are written whole for each small change:
// etcd keeps every version until the compaction.
func checkWritten() Check {
	return Check{
		Name: "written bytes", Asks: "does the history of what is written fit into the quota?", IDs: []string{"KVD-CHURN-002"}, Needs: []Need{NeedDelta, NeedStatus},
		Look: func(in *Input) ([]Finding, string) {
			most := memberDelta{}
			rate := -1.0
			for _, d := range in.deltas() {
				r, ok := d.Rate(metrics.PutBytes, nil)
				if ok && r > rate { // all members are written the same; one that starts catches up, and counts more
					most, rate = d, r
				}
			}
			if rate < 0 {
				return nil, "the metrics do not tell"
			}
			history := rate * rewrites(most) * keptHistory.Seconds()
			measured := fmt.Sprintf("%s/s: %s of history in ten minutes", size(int64(rate)), size(int64(history)))
			q := in.view().EffectiveQuota()
			if q <= 0 {
				return nil, measured
			}
			share := history / float64(q)
			measured += fmt.Sprintf(", %s of the quota", percent(share))
			if history < in.Limits.HistoryBytes || share < in.Limits.WrittenShare {
				return nil, measured
			}
			return []Finding{in.written(most, rate, history, q)}, measured
		},
	}
}

// rewrites is the share of the puts that left an older version behind, by how many keys
// there are more than before: a new key is no history. All of them where keys are not
// counted.
func rewrites(d memberDelta) float64 {
	puts, ok := d.Counter("etcd_mvcc_put_total", nil)
	if !ok || puts <= 0 {
		return 1
	}
	return 1 - min(1, max(0, keysMore(d))/puts)
}

// keysMore is by how many the keys have become more.
func keysMore(d memberDelta) float64 {
	was, _ := d.From.Value("etcd_debugging_mvcc_keys_total", nil)
	now, _ := d.To.Value("etcd_debugging_mvcc_keys_total", nil)
	return now - was
}

// written is the finding, with whose writes they are where that is known.
func (in *Input) written(d memberDelta, rate, history float64, quota int64) Finding {
	f := Finding{ID: "KVD-CHURN-002", Severity: Warning, Subject: "cluster",
		Summary: fmt.Sprintf("%s of keys and values are written each second: the history of ten minutes, which kube-apiserver keeps, would be %s, %s of the quota",
			size(int64(rate)), size(int64(history)), percent(history/float64(quota))),
		Evidence: []Evidence{d.evidence("keys and values put each second", rate, Bytes), d.evidence("of history in ten minutes of that", history, Bytes), {What: "quota", Value: float64(quota), Unit: Bytes, Source: "status of the members, the smallest", At: in.At}}}
	if n, ok := d.Rate("etcd_mvcc_put_total", nil); ok {
		f.Evidence = append(f.Evidence, d.evidence("puts", n, Rate), d.evidence("keys more than before", keysMore(d), Count))
	}
	remedy := "kvd diagnose --interval 1m  # whether it goes on"
	if w := in.Writes; w == nil || len(w.Groups) == 0 || w.Groups[0].Resource != "" {
		remedy += "; who writes is in kube-apiserver's audit log"
	}
	if w := in.Writes; w != nil && len(w.Groups) > 0 {
		top := w.Groups[0]
		f.Subject = top.Name
		f.Summary += fmt.Sprintf("; %s of the latest are of %s, %s each", percent(float64(top.Bytes)/float64(max(1, w.Bytes))), top.Name, size(top.Bytes/max(1, top.Writes)))
		source := fmt.Sprintf("revisions %d to %d of %s", w.From, w.To, w.Member)
		for _, g := range w.Groups {
			f.Evidence = append(f.Evidence, Evidence{What: "written of " + g.Name, Value: float64(g.Bytes), Unit: Bytes, Source: source, At: in.At},
				Evidence{What: "writes to " + g.Name, Value: float64(g.Writes), Unit: Count, Source: source, At: in.At})
		}
		f.Remedy = lessWritten(top)
	}
	f.Remedy = append(f.Remedy, remedy, "kvd quota  # how large it has to be until then; or compact at shorter intervals")
	return f
}

// minSize is the power of two below a size, for --min-size: what is as large as the mean
// or larger is shown.
func minSize(mean int64) string {
	n := int64(1)
	for n*2 <= mean {
		n *= 2
	}
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprint(n)
}

// lessWritten says how less is written of a resource.
func lessWritten(g GroupWrites) []string {
	switch {
	case g.Resource == "nodes":
		return []string{"let kubelets renew a Lease and send the Node every 5 min (nodeStatusReportFrequency); see which agents write Nodes or their status"}
	case g.Resource == "endpoints":
		return []string{"have clients read EndpointSlices; label the Service so that no Endpoints are made of it"}
	}
	return []string{"kvd keys list" + under(g.Prefix) + " --min-size " + minSize(g.Bytes/max(1, g.Writes)) + "  # the large ones", "write them less often, in parts of which only the changed one is written, or elsewhere"}
}
