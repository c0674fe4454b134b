package result

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
)

// Whatever a file holds, it is read or refused with a place; what is read can be
// reported, drawn, compared and written again.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, sample(8, 4, time.Millisecond)); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"header":{"kvd_loadgen":1}}{"row":{"at_seconds":-1,"span_seconds":1e300,"ops":[{"response_hdr":""}]}}{"totals":{}}`))
	f.Add([]byte(`{"header":{"kvd_loadgen":1,"params":null}}` + "\n" + `{"event":{"at_seconds":1e308,"what":"nospace"}}{"totals":{"measured_seconds":-5}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		runs, err := Read(bytes.NewReader(raw), "f")
		if err != nil {
			if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "f, line ") {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, r := range runs {
			rep := NewReport(r, Judge(r, nil), true)
			_ = Err(r, nil)
			var page, again bytes.Buffer
			if err := WritePage(&page, rep); err != nil {
				t.Fatal(err)
			}
			if err := Write(&again, r); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(&again, "f"); err != nil {
				t.Fatalf("what was written is not read: %v", err)
			}
		}
		_, _ = Compare(runs, runs)
		_, _ = Merge(runs)
	})
}

func FuzzObjectives(f *testing.F) {
	for _, s := range []string{"txn:p99<50ms", "errors<0.1%,late_heartbeats==0", "range pods:max>=1h", "rate>1e9"} {
		f.Add(s)
	}
	r := sample(2, 3, time.Millisecond)
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseObjectives(text)
		if err != nil {
			if fault.KindOf(err) != fault.Usage {
				t.Fatal(err)
			}
			return
		}
		for _, j := range Judge(r, o) {
			if j.Verdict != Unknown && j.Value == nil {
				t.Fatalf("%+v", j)
			}
		}
	})
}
