package dbfile

import (
	"slices"
	"testing"
)

// Whoever has a lock on a file is found by its inode: on its device, or where a file
// system tells another device, if nothing else has that inode.
func TestParseLocks(t *testing.T) {
	const locks = `1: FLOCK  ADVISORY  WRITE 11 fd:01:100 0 EOF
2: FLOCK  ADVISORY  READ 21 fd:01:200 0 EOF
3: FLOCK  ADVISORY  READ 22 fd:01:200 0 EOF
3: -> FLOCK  ADVISORY  WRITE 23 fd:01:200 0 EOF
4: OFDLCK ADVISORY  WRITE -1 fd:01:300 0 EOF
5: POSIX  ADVISORY  WRITE 41 fd:01:400 0 EOF
6: FLOCK  ADVISORY  READ 51 00:2d:500 0 EOF
7: FLOCK  ADVISORY  READ 52 00:2d:500 0 EOF
8: FLOCK  ADVISORY  READ 61 00:2d:600 0 EOF
9: FLOCK  ADVISORY  READ 62 00:2e:600 0 EOF
10: FLOCK  ADVISORY  READ 63 fd:02:200 0 EOF
`
	for _, tc := range []struct {
		inode string
		modes []string
		want  []int
	}{
		{"fd:01:100", []string{"WRITE"}, []int{11}},
		{"fd:01:100", []string{"READ"}, nil},
		{"fd:01:100", []string{"WRITE", "READ"}, []int{11}},
		{"fd:01:200", []string{"WRITE", "READ"}, []int{21, 22}}, // one that waits holds nothing
		{"fd:01:200", []string{"WRITE"}, nil},
		{"fd:01:300", []string{"WRITE"}, []int{-1}},
		{"fd:01:400", []string{"WRITE"}, nil},
		{"00:1f:500", []string{"READ"}, []int{51, 52}},
		{"00:1f:600", []string{"READ"}, nil}, // whose, is not known
		{"fd:01:999", []string{"READ"}, nil},
	} {
		if got := parseLocks(locks, tc.inode, tc.modes...); !slices.Equal(got, tc.want) {
			t.Errorf("%s, %q: %v, want %v", tc.inode, tc.modes, got, tc.want)
		}
	}
}
