package cli

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
)

// How numbers are written for people, in all tables and sentences.

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// bytesOrDash shows a size that may be unknown.
func bytesOrDash(n *int64) string {
	if n == nil {
		return "-"
	}
	return sizeText(*n)
}

// sizeText shows a size as etcd's own tools do, in binary units.
func sizeText(n int64) string {
	if n < 0 {
		return "-" + humanize.IBytesN(uint64(-n), 3)
	}
	return humanize.IBytesN(uint64(n), 3)
}

// seconds shows a duration in the unit that suits it, to the millisecond; "-" is
// none.
func seconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
