package diagnose

import (
	"fmt"
	"strings"
)

// list joins for a sentence: "a", "a and b", "a, b and c".
func list(all []string) string {
	switch n := len(all); n {
	case 0:
		return ""
	case 1:
		return all[0]
	default:
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
}

// counted writes a number with its noun.
func counted[N int | int64 | uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	if stem, is := strings.CutSuffix(one, "y"); is && one != "key" && one != "live key" {
		one = stem + "ie"
	}
	return fmt.Sprintf("%s %ss", Count.Show(float64(n)), one)
}

func percent(v float64) string { return Ratio.Show(v) }
func size(v int64) string      { return Bytes.Show(float64(v)) }
