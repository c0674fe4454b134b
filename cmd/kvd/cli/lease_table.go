package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops"
)

func drawLeases(w io.Writer, l ops.LeaseList) error {
	fmt.Fprintf(w, "%s, as %s has %s\n", count(l.Total, "lease"), render.Safe(l.Member), itOrThem(l.Total))
	if l.LeaderID == "" {
		fmt.Fprintln(w, "no leader: nothing expires until there is one")
	}
	if len(l.Leases) > 0 {
		if err := leaseColumns(l).Write(w, l.Leases); err != nil {
			return err
		}
	}
	if left := l.Total - l.Asked - l.Gone; l.Asked > 0 && left > 0 {
		fmt.Fprintf(w, "%d more were not asked for (--limit)\n", left)
	}
	if l.Expired > 0 {
		fmt.Fprintf(w, "%d expired and not revoked yet\n", l.Expired)
	}
	if l.KeysHeld == nil {
		return nil
	}
	if l.Share != nil {
		fmt.Fprintf(w, "\nkeys on these leases: %d, %.1f%% of %s\n", *l.KeysHeld, 100**l.Share, ofAll(int(*l.KeysTotal), "key"))
	}
	if len(l.Resources) == 0 {
		return nil
	}
	return render.Columns[ops.LeaseResource]{
		{Header: "resource", Value: func(r ops.LeaseResource) string { return r.Resource }},
		{Header: "keys", Right: true, Value: func(r ops.LeaseResource) string { return strconv.FormatInt(r.Keys, 10) }},
		{Header: "leases", Right: true, Value: func(r ops.LeaseResource) string { return strconv.Itoa(r.Leases) }},
		{Header: "of these", Right: true, Value: func(r ops.LeaseResource) string { return fmt.Sprintf("%.1f%%", 100*r.Share) }},
	}.Write(w, l.Resources)
}

func itOrThem(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// ofAll writes what a share is of.
func ofAll(n int, noun string) string {
	if n == 1 {
		return "the one " + noun
	}
	return "all " + count(n, noun)
}

// leaseColumns has only what was asked for.
func leaseColumns(l ops.LeaseList) render.Columns[ops.Lease] {
	c := render.Columns[ops.Lease]{{Header: "lease", Value: func(x ops.Lease) string { return x.ID }}}
	if l.Asked == 0 {
		return c
	}
	c = append(c, leaseTimeColumns()...)
	if l.KeysHeld == nil {
		return c
	}
	return append(c,
		render.Column[ops.Lease]{Header: "keys", Right: true, Value: func(x ops.Lease) string { return strconv.Itoa(*x.Count) }},
		render.Column[ops.Lease]{Header: "for example", Value: func(x ops.Lease) string {
			if len(x.Example) == 0 {
				return "-"
			}
			return x.Example[0]
		}})
}

func leaseTimeColumns() render.Columns[ops.Lease] {
	seconds := func(n int64) string { return (time.Duration(n) * time.Second).String() }
	return render.Columns[ops.Lease]{
		{Header: "left", Right: true, Value: func(x ops.Lease) string {
			if x.Expired {
				return "expired"
			}
			return seconds(*x.TTL)
		}},
		{Header: "granted", Right: true, Value: func(x ops.Lease) string { return seconds(*x.Granted) }},
	}
}
