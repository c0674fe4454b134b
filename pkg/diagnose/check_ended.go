package diagnose

import (
	"fmt"

	"kvd/pkg/ops/fault"
)

// checkEnded tells of a member that ended when it was read from.
func checkEnded() Check {
	return Check{
		Name: "reading", Asks: "does the member that is read from live on?", IDs: []string{"KVD-CORRUPT-005"}, Needs: []Need{NeedView},
		Look: func(in *Input) ([]Finding, string) {
			e := in.Ended
			if e == nil {
				return nil, "none ended"
			}
			who := name(e.Member)
			return []Finding{{ID: "KVD-CORRUPT-005", Severity: Critical, Subject: who,
				Summary: fmt.Sprintf("%s ended when %s were read: its database has not what its index says, and any client that reads it there ends it as well", who, e.Reading),
				Evidence: []Evidence{
					{What: "before", Text: "answered", Source: "status of " + who, At: in.At},
					{What: "read", Text: e.Reading, Source: "serializable range and watch through " + who, At: in.At},
					{What: "since", Text: fault.CauseOf(e.Err), Source: "status of " + who},
				},
				Remedy: []string{
					"look for fatal in its log: the last line says which record is missing",
					"stop whatever starts it again, and copy its data directory: a start can go on without the keys, and look well",
					"kvd diagnose --data-dir DIR  # of the copy: what is damaged, and what is gone",
				}}}, ""
		},
	}
}
