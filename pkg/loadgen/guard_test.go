package loadgen

import (
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

func TestOnlyThisMachineIsLoadedUnasked(t *testing.T) {
	for ep, local := range map[string]bool{
		"http://127.0.0.1:2379": true, "https://127.8.9.10:2379": true, "http://[::1]:2379": true, "localhost:2379": true, "[::1]:2379": true,
		"unix:///tmp/etcd.sock": true, "": true,
		"http://10.0.0.1:2379": false, "https://etcd.example.com:2379": false, "localhost.example.com:2379": false, "http://[fe80::1]:2379": false,
		"http://127.0.0.1.example.com:2379": false, "127.0.0.1@10.0.0.1:2379": false,
	} {
		err := checkTarget([]string{ep}, false)
		if local != (err == nil) {
			t.Errorf("%q: %v", ep, err)
		}
		if err != nil && (fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != "not_loopback") {
			t.Errorf("%q: %s, %s", ep, fault.KindOf(err), fault.CauseOf(err))
		}
		if err := checkTarget([]string{ep}, true); err != nil {
			t.Errorf("%q, and the user says that it is theirs: %v", ep, err)
		}
	}
}

func TestFullClustersAreRefused(t *testing.T) {
	view := func(size int64) cluster.View {
		return cluster.View{Members: []cluster.Member{{ID: 1, Name: "m1", Status: &cluster.Status{DBSize: size, Quota: 1000, QuotaKnown: true}}}}
	}
	o := DefaultOptions()
	if err := checkRoom(view(799), o); err != nil {
		t.Errorf("at 79.9 %%: %v", err)
	}
	if err := checkRoom(view(800), o); fault.CauseOf(err) != "quota_guard" {
		t.Errorf("at 80 %%: %v", err)
	}
	o.StopAtUsage = 0
	if err := checkRoom(view(999), o); err != nil {
		t.Errorf("at 99.9 %%, and nothing is to stop it: %v", err)
	}
	full := view(1)
	full.Alarms = []cluster.Alarm{{MemberID: 1, Type: "NOSPACE"}}
	if err := checkRoom(full, o); fault.CauseOf(err) != cluster.CauseNoSpace {
		t.Errorf("with the alarm: %v", err)
	}
}

func TestOptionsKeepToTheirPrefix(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"/kvd-loadgen/registry": true, "/kvd-loadgen/a/b": true,
		"/registry": false, "/kvd-loadgen": false, "/kvd-loadgen/": false, "/kvd-loadgen/x/": false, "": false, "/kvd-loadgenx": false,
	} {
		o := DefaultOptions()
		o.Prefix = prefix
		if err := o.Check(); ok != (err == nil) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}
