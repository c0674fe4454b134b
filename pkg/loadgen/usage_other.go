//go:build !unix

package loadgen

import "time"

// cpuTime is not known here; the limit on it then never applies.
func cpuTime() time.Duration { return 0 }
