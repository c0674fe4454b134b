package ops

import (
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
)

// recorded makes a view of members m1, m2, … with these statuses.
func recordedView(statuses ...*cluster.Status) cluster.View {
	v := cluster.View{Leader: 1, At: time.Unix(1000, 0)}
	for i, s := range statuses {
		v.Members = append(v.Members, cluster.Member{ID: uint64(i + 1), Name: "m" + string(rune('1'+i)), Status: s, At: v.At})
	}
	return v
}

func sized(version string, quota, size int64) *cluster.Status {
	return &cluster.Status{Version: version, Quota: quota, QuotaKnown: true, DBSize: size, DBInUse: size}
}

func TestNestedPuts(t *testing.T) {
	for version, want := range map[string]bool{
		"3.7.0": true, "3.7.1": false, "3.7.3": false, "3.8.0": false, "3.6.13": true, "3.6.14": false, "3.6.0-rc.1": true,
		"3.5.21": true, "3.5.32": true, "3.5.33": false, "3.4.37": true, "3.7.0-rc.0": true, "4.0.0": false, "": false, "nonsense": false,
	} {
		got := nestedPuts(recordedView(sized(version, 0, 0)))
		if (len(got) == 1) != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
		if want && !strings.Contains(got[0].Message, "nested puts bypass the quota") {
			t.Error(got[0].Message)
		}
	}
}

func TestQuotaSettings(t *testing.T) {
	const gib = 1 << 30
	silent := sized("3.5.9", 0, 0)
	silent.QuotaKnown = false
	for name, tc := range map[string]struct {
		view cluster.View
		want string // cause:member of each finding
		eff  int64
	}{
		"all the default":  {recordedView(sized("3.7.3", 0, 0), sized("3.7.3", 2*gib, 0), sized("3.7.3", 0, 0)), "", 2 * gib},
		"one smaller":      {recordedView(sized("3.7.3", 8*gib, 0), sized("3.7.3", 8*gib, 0), sized("3.7.3", 0, 0)), "quota_differs:m3", 2 * gib},
		"one larger":       {recordedView(sized("3.7.3", 2*gib, 0), sized("3.7.3", 8*gib, 0), sized("3.7.3", 2*gib, 0)), "quota_differs:m2", 2 * gib},
		"all differ":       {recordedView(sized("3.7.3", 1*gib, 0), sized("3.7.3", 2*gib, 0), sized("3.7.3", 3*gib, 0)), "quota_differs:m1 quota_differs:m2", gib},
		"above 8 GiB":      {recordedView(sized("3.7.3", 9*gib, 0)), "quota_above_8gib:m1", 9 * gib},
		"disabled":         {recordedView(sized("3.7.3", -1, 0)), "quota_disabled:m1", -1},
		"one disabled":     {recordedView(sized("3.7.3", -1, 0), sized("3.7.3", gib, 0), sized("3.7.3", gib, 0)), "quota_disabled:m1", gib},
		"most disabled":    {recordedView(sized("3.7.3", -1, 0), sized("3.7.3", -1, 0), sized("3.7.3", gib, 0)), "quota_disabled:m1 quota_disabled:m2 quota_differs:m3", gib},
		"not told":         {recordedView(silent, silent), "quota_unknown:m1 quota_unknown:m2", 0},
		"assumed":          {recordedView(silent, silent).AssumeQuota(gib), "", gib},
		"a member is down": {recordedView(sized("3.7.3", gib, 0), nil), "", gib},
	} {
		var got []string
		for _, f := range quotaSettings(tc.view) {
			if strings.Contains(f.Hint, "-1") {
				t.Errorf("%s: to disable the quota is no advice: %s", name, f.Hint)
			}
			if f.Cause == FindQuotaDiffers && name == "one disabled" {
				continue // beside the disabled one
			}
			got = append(got, f.Cause+":"+f.Member)
		}
		if strings.Join(got, " ") != tc.want || tc.view.EffectiveQuota() != tc.eff {
			t.Errorf("%s: %v, effective %d; want %s, %d", name, got, tc.view.EffectiveQuota(), tc.want, tc.eff)
		}
	}
}

func TestHeadroom(t *testing.T) {
	v := recordedView(sized("3.7.3", 16<<20, 16<<20-1000), sized("3.7.3", 64<<20, 1<<20), nil, sized("3.7.3", -1, 1<<20))
	h := HeadroomOf(v)
	if len(h) != 3 || h[0].Left != 1000 || h[0].Put != 1000-257 || h[1].Put != 3<<19-512 || h[2].Quota != cluster.QuotaDisabled || h[2].Put != 3<<19-512 {
		t.Errorf("%+v", h)
	}
	if n, by, ok := LargestPut(v); !ok || n != 743 || by.Name != "m1" {
		t.Errorf("largest put %d by %s", n, by.Name)
	}
	if !fits(v.Members[0].Status, putOverhead+743) || fits(v.Members[0].Status, putOverhead+744) {
		t.Error("the largest put does not agree with what fits")
	}
	v.Alarms = []cluster.Alarm{{Type: cluster.AlarmNoSpace}}
	if n, _, _ := LargestPut(v); n != 0 {
		t.Errorf("under NOSPACE %d", n)
	}
	if n, _, _ := LargestPut(recordedView(sized("3.7.3", 16<<20, 17<<20))); n != 0 {
		t.Errorf("above the quota %d", n)
	}
	if _, _, ok := LargestPut(recordedView(nil)); ok {
		t.Error("nobody answered, and yet there is a number")
	}
}

func TestGrowth(t *testing.T) {
	var g Growth
	at := func(sec int64, a, b int64, rev int64) GrowthSample {
		v := recordedView(sized("3.7.3", 1000, a), sized("3.7.3", 2000, b))
		for i := range v.Members {
			v.Members[i].At = time.Unix(sec, 0)
			v.Members[i].Status.Revision = rev
		}
		s, ok := g.Add(v)
		if !ok {
			t.Fatal("no sample")
		}
		return s
	}
	if s := at(0, 500, 800, 10); s.Member != "m1" || s.FullIn != nil || s.InUseRate != nil {
		t.Errorf("first: %+v", s)
	}
	// m1: 10 bytes/s, 400 left: 40 s. m2: 40 bytes/s, 800 left: 20 s.
	if s := at(10, 600, 1200, 110); s.Member != "m2" || *s.FullIn != 20 || *s.InUseRate != 40 || *s.RevisionRate != 10 {
		t.Errorf("second: %+v", s)
	}
	// A compaction: m2 falls, and grows slowly on average; m1 grows as before.
	if s := at(20, 700, 900, 210); s.Member != "m1" || *s.FullIn != 30 || *s.InUseRate != 10 || *s.Average != 10 {
		t.Errorf("third: %+v", s)
	}
	if _, ok := (&Growth{}).Add(recordedView(nil)); ok {
		t.Error("nobody answered, and yet there is a sample")
	}
}
