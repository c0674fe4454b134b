package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
)

// leastApart is what two samples have to be apart for a rate to mean anything.
const leastApart = time.Second

// ofEtcd reports series that only etcd itself serves: kube-apiserver has some whose
// names begin with etcd_ as well.
func ofEtcd(s *metrics.Sample) bool {
	return slices.ContainsFunc(s.Names(), func(name string) bool {
		return slices.ContainsFunc([]string{"etcd_server_", "etcd_disk_", "etcd_mvcc_", "etcd_debugging_", "etcd_network_"}, func(p string) bool { return strings.HasPrefix(name, p) })
	})
}

// inOrder says which of two samples of a member is the older one: by when its process
// began, and of one process by its counters, which only grow. The files' times say
// only how far they are apart, since a copy has the time of the copy.
func inOrder(a, b recorded) (older, newer recorded, err error) {
	refuse := func(msg, hint string) (recorded, recorded, error) {
		return a, b, &fault.Error{Kind: fault.Usage, Cause: "metrics_order", Op: op, Subject: a.path + " and " + b.path, Msg: msg, Hint: hint}
	}
	const twoOfOne = "name two samples of one member that were taken some time apart, each once: --metrics THEN --metrics NOW"
	older, newer = a, b
	least := leastApart
	began, known := a.s.Value(metrics.ProcessStart, nil)
	again, alsoKnown := b.s.Value(metrics.ProcessStart, nil)
	switch {
	case a.path == b.path:
		return refuse("the same file is given twice", twoOfOne)
	case !known || !alsoKnown: // a restart cannot be told from a wrong order: the files' times have to do
	case began != again: // nothing is counted across a restart
		least = 0
		if cmp.Less(again, began) {
			older, newer = b, a
		}
	default:
		grew, fell := b.s.Moved(a.s)
		switch {
		case len(grew) > 0 && len(fell) > 0:
			return refuse(fmt.Sprintf("%s of one process go back: %s has grown from the first to the second, %s has fallen; process_start_time_seconds is the same, so that one of them is mixed from several samples",
				counted(len(fell), "counter"), grew[0], fell[0]), twoOfOne)
		case len(fell) > 0:
			older, newer = b, a
		case len(grew) == 0 && a.s.Has(metrics.CPUSeconds):
			return refuse("it is one sample twice: no counter has moved, 0 s are between them", twoOfOne)
		}
	}
	if apart := newer.at.Sub(older.at); apart <= 0 || apart < least {
		return refuse(fmt.Sprintf("by their times the files were written %s apart (%s is the older one), so that no rate can be told", showApart(apart), older.path),
			"give each the time when it was taken (a copy keeps it with cp -p): touch -d 2026-01-31T12:00:00Z "+older.path+", and at least 1 s more for "+newer.path)
	}
	return older, newer, nil
}

func showApart(d time.Duration) string {
	if d <= -leastApart {
		return "in the other order, " + Seconds.Show(-d.Seconds())
	}
	return "0 s"
}
