package cli

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
)

// quotaFlag is --quota: what the user knows of servers that do not tell.
type quotaFlag struct {
	size  byteSize
	given bool
}

func (q *quotaFlag) addFlags(fs *pflag.FlagSet) {
	fs.Var(q, "quota", "--quota-backend-bytes of members that tell it by their metrics only (etcd before 3.6), where these cannot be read, for example 8GiB")
}

// String, Set and Type make it a pflag.Value.
func (q *quotaFlag) String() string { return q.size.String() }

// Type names the kind of flag value.
func (q *quotaFlag) Type() string { return "size" }

// Set reads a size.
func (q *quotaFlag) Set(s string) error {
	q.given = true
	return q.size.Set(s)
}

// fill fills in the quota of members whose status does not tell it: what the user
// says, else what their metrics do.
func (q *quotaFlag) fill(ctx context.Context, client *cluster.Client, v cluster.View) cluster.View {
	if q.given {
		return q.assume(v)
	}
	return ops.WithQuotas(ctx, client, nil, v)
}

// assume fills it in if the user says it.
func (q *quotaFlag) assume(v cluster.View) cluster.View {
	if !q.given {
		return v
	}
	return v.AssumeQuota(int64(q.size))
}

// byteSize is a flag for a number of bytes: 1048576, 1MiB, 2GB.
type byteSize int64

// String shows the size, in a unit where that is exact, so that Set reads the same
// number again; zero is empty, so that help shows no default.
func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	short := humanize.IBytes(uint64(*b))
	if n, err := humanize.ParseBytes(short); err != nil || n != uint64(*b) {
		return strconv.FormatInt(int64(*b), 10)
	}
	return short
}

// Type names the kind of flag value.
func (b *byteSize) Type() string { return "size" }

// Set reads a number with or without a unit.
func (b *byteSize) Set(s string) error {
	bare := strings.TrimSuffix(strings.TrimSuffix(s, "B"), "b")
	if n, err := strconv.ParseInt(bare, 10, 64); err == nil && n >= 0 {
		*b = byteSize(n)
		return nil
	}
	n, err := humanize.ParseBytes(s)
	if _, part := strconv.ParseFloat(bare, 64); err != nil || part == nil { // a part of a byte, or a number out of range
		return fmt.Errorf("%q is not a size: want a whole number of bytes, or one with a unit such as 512MiB", s)
	}
	if n > math.MaxInt64 {
		return fmt.Errorf("%q is more than the %d bytes that can be counted", s, int64(math.MaxInt64))
	}
	*b = byteSize(n)
	return nil
}
