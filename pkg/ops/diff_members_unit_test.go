package ops

import (
	"strings"
	"testing"
)

func TestJudgeHashes(t *testing.T) {
	hash := func(member string, hash uint32, compacted int64) MemberHash {
		return MemberHash{member, 10, compacted, hash}
	}
	for _, tc := range []struct {
		hashes []MemberHash
		same   bool
		says   string
	}{
		{[]MemberHash{hash("m1", 7, 1), hash("m2", 7, 1), hash("m3", 7, 1)}, true, "all 3 members have the same hash, 00000007"},
		{[]MemberHash{hash("m1", 7, 1), hash("m2", 8, 1), hash("m3", 7, 1)}, false, "m1, m3: 00000007 (the majority); m2: 00000008"},
		{[]MemberHash{hash("m1", 7, 1), hash("m2", 8, 1), hash("m3", 9, 1)}, false, "do not guess"},
		{[]MemberHash{hash("m1", 7, 1), hash("m2", 8, 1)}, false, "do not guess"}, // the third voter is down
		{[]MemberHash{hash("m1", 7, 1), hash("m2", 8, 4), hash("m3", 7, 4)}, false, "can't be compared"},
	} {
		got, same, differ := JudgeHashes(tc.hashes, 3)
		if same != tc.same || differ == (tc.same || strings.Contains(tc.says, "can't")) || !strings.Contains(got, tc.says) {
			t.Errorf("%v: %v, %q; want %q", tc.hashes, same, got, tc.says)
		}
	}
}
