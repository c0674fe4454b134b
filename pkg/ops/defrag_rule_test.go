package ops

import (
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

func ruleMember(size, inUse, quota int64) (cluster.View, cluster.Member) {
	v := fakeView(1, fakeMember{name: "a", size: size, inUse: inUse, lag: 7}, fakeMember{name: "b", size: 1, inUse: 1})
	s := v.Members[0].Status
	switch {
	case quota == 0:
		s.Quota, s.QuotaKnown, s.Version = 0, false, "3.5.21"
	case quota < 0:
		s.Quota = -1
	default:
		s.Quota = quota << 20
	}
	return v, v.Members[0]
}

func ask(t *testing.T, rule string, v cluster.View, m cluster.Member, o DefragOptions) (bool, string, error) {
	t.Helper()
	r, err := CompileDefragRule(rule)
	if err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
	d := &defragmentation{opts: o}
	return r.Ask(d.ruleInput(v, m))
}

func TestRules(t *testing.T) {
	for _, tc := range []struct {
		rule               string
		size, inUse, quota int64 // MiB
		want               bool
	}{
		// C29: of its own quota 14 of 16 MiB is 87 %; of the default 2 GiB it would be 0.7 %.
		{"usage_ratio > 0.8", 14, 14, 16, true},
		{"usage_ratio > 0.8", 14, 14, 8192, false},
		{"usage_ratio > 0.8", 7000, 10, 8192, true},
		{"dbQuotaUsage > 0.8", 14, 14, 16, true},
		{"dbQuotaUsage > 0.8", 14, 14, 2048, false},
		{"dbQuotaUsage > 0.8 || dbSize - dbSizeInUse > 200*1024*1024", 500, 200, 8192, true},
		{"dbSizeFree > 200*1024*1024", 500, 300, 8192, false},
		{"free_ratio >= 0.5", 40, 20, 64, true},
		{"free_ratio > 0.5 && db_free > 10 * MiB", 40, 20, 64, false},
		{"in_use_ratio < 0.3 and not is_leader", 40, 10, 64, false},
		{"db_free / db_size > 0.7", 40, 10, 64, true},
		{"quota - db_size < 30 * MiB", 40, 10, 64, true},
		{"quota_free == 24 * MiB && quota == bytes(\"64MiB\")", 40, 10, 64, true},
		{"raft_lag == 7 && is_leader && !nospace", 40, 10, 64, true},
		{"name in [\"a\", \"z\"] && version startsWith \"3.7\"", 40, 10, 64, true},
		{"usage_ratio > 0", 40, 10, -1, false}, // no quota: usage is 0
		{"quota > 100 * GiB", 40, 10, -1, true},
		{"db_size > 1 * GiB", 40, 10, 0, false}, // does not need the quota
		// Versions go by number; the member has 3.7.3.
		{"version >= \"3.10\"", 40, 10, 64, false},
		{"version >= \"3.7\" && version < \"3.7.10\" && version > \"3\"", 40, 10, 64, true},
		{"\"3.10.0\" > version and not (\"3.7.3\" < version)", 40, 10, 64, true},
		{"version == \"3.7.3\" && version in [\"3.7.3\"]", 40, 10, 64, true},
		{"usage_ratio > 1.5 || free_ratio >= 1 || usage_ratio * 100 > 62", 40, 10, 64, true}, // nothing wrong with these
	} {
		v, m := ruleMember(tc.size, tc.inUse, tc.quota)
		got, why, err := ask(t, tc.rule, v, m, DefaultDefragOptions())
		if err != nil || got != tc.want {
			t.Errorf("%s with %d/%d/%d MiB: %v, want %v (%v, %s)", tc.rule, tc.size, tc.inUse, tc.quota, got, tc.want, err, why)
		}
	}
}

func TestRuleSaysWithWhichNumbers(t *testing.T) {
	v, m := ruleMember(14, 10, 2048)
	_, why, err := ask(t, "usage_ratio > 0.8 && db_free > 100 * MiB", v, m, DefaultDefragOptions())
	if err != nil || !strings.Contains(why, "db_free = 4194304, usage_ratio = 0.007") {
		t.Errorf("%q, %v", why, err)
	}
}

// A server before 3.6 does not tell its quota.
func TestRuleNeedsAQuota(t *testing.T) {
	for _, rule := range []string{"usage_ratio > 0.8", "db_size > 1 && quota > 5", "dbQuotaUsage > 0.1 || name == \"a\""} {
		v, m := ruleMember(14, 14, 0)
		_, _, err := ask(t, rule, v, m, DefaultDefragOptions())
		errorsIs(t, err, fault.Usage, "quota_unknown")
		if !strings.Contains(err.Error(), "3.5.21") || !strings.Contains(fault.HintOf(err), "--quota") {
			t.Errorf("%v (%s)", err, fault.HintOf(err))
		}
		o := DefaultDefragOptions()
		o.Quota = 16 << 20
		if yes, _, err := ask(t, rule, v, m, o); !yes || err != nil {
			t.Errorf("%s with --quota: %v %v", rule, yes, err)
		}
	}
}

func TestWrongRules(t *testing.T) {
	for rule, where := range map[string]string{
		"db_sice > 1":                   "unknown name db_sice, at line 1, column 1",
		"db_size > 1 && foo":            "column 16",
		"db_size >":                     "column 9",
		"db_size":                       "expected bool",
		"usage_ratio > 0.8 ? 1 : 2":     "expected bool",
		"name > 3":                      "column 6",
		"all(name, true)":               "column 5",
		"bytes(\"lots\") > 1":           "",
		"db_size > \n 1 &&":             "line 2",
		"db_size ~ 3":                   "column 9",
		strings.Repeat("1+", 600) + "1": "",
		"usage_ratio > 80":              "usage_ratio is a part of 1 and not per cent",
		"!(80.5 <= dbQuotaUsage)":       "compared with 80.5",
		"free_ratio > 50 && nospace":    "free_ratio is a part of 1",
		"in_use_ratio < 1.5":            "in_use_ratio is a part of 1",
		"version >= \"three\"":          "\"three\" is no version",
		"version > 3":                   "column 9",
	} {
		r, err := CompileDefragRule(rule)
		if r != nil { // wrong only when it is asked
			v, m := ruleMember(14, 14, 16)
			_, _, err = r.Ask((&defragmentation{}).ruleInput(v, m))
		}
		errorsIs(t, err, fault.Usage, "rule")
		if err != nil && !strings.Contains(err.Error(), where) {
			t.Errorf("%q: %v, want %q in it", rule, err, where)
		}
		if strings.Contains(fault.HintOf(err), "\n") || (err != nil && strings.Count(err.Error(), "\n") > 0) {
			t.Errorf("%q: more than one line: %v", rule, err)
		}
	}
	if r, err := CompileDefragRule("  "); r != nil || err != nil {
		t.Errorf("an empty rule is %v, %v", r, err)
	}
}

// What people write first has a hint of its own.
func TestRuleHints(t *testing.T) {
	for rule, hint := range map[string]string{
		"db_size > 100MiB":                    `bytes("100MiB")`,
		"db_free > 1.5 GiB && nospace":        `bytes("1.5GiB")`,
		"usage_ratio > 80":                    "write 0.8",
		"free_ratio > 12.5":                   "write 0.125",
		"db_sice > bytes(\"100MiB\")":         "names are",
		"version < \"v3\" || usage_ratio > 1": `"3.6"`,
	} {
		_, err := CompileDefragRule(rule)
		errorsIs(t, err, fault.Usage, "rule")
		if !strings.Contains(fault.HintOf(err), hint) {
			t.Errorf("%s: hint %q, want %q in it", rule, fault.HintOf(err), hint)
		}
	}
}

func FuzzDefragRule(f *testing.F) {
	for _, s := range []string{"usage_ratio > 0.8", "dbQuotaUsage > 0.8 || dbSize - dbSizeInUse > 200*1024*1024", "name matches '['", "1 % 0 == 1", "((((", "bytes('1XiB')>1", "version >= '3.10'", "'' > version", "usage_ratio > 80"} {
		f.Add(s)
	}
	v, m := ruleMember(14, 10, 16)
	in := (&defragmentation{sink: progress.Discard}).ruleInput(v, m)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := CompileDefragRule(text)
		if r != nil && err == nil {
			_, _, err = r.Ask(in)
		}
		if err != nil && fault.KindOf(err) != fault.Usage {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
