package diagnose

import (
	"fmt"
	"strings"

	"kvd/pkg/ops/keyspace"
)

// checkObjects looks at sizes of what is stored. Only a sample of the values is
// read, so that what is not seen is not said to be small.
func checkObjects() Check {
	return Check{
		Name: "objects", Asks: "is anything stored that is too large?", IDs: []string{"KVD-OBJECT-001", "KVD-OBJECT-002"}, Needs: []Need{NeedKeys},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			largest, where := int64(0), ""
			for _, g := range in.Keys.Groups {
				if g.Largest > largest {
					largest, where = g.Largest, groupName(g)
				}
				if f, ok := in.tooLarge(g, "sample of "+in.Keys.Member, "list of "+in.Keys.Member, ""); ok {
					out = append(out, f)
				}
			}
			switch {
			case in.Keys.Keys == 0:
				return out, "nothing is stored"
			case where == "":
				return out, counted(in.Keys.Keys, "key") + ", of which no value was read"
			}
			return out, fmt.Sprintf("the largest seen has %s, in %s", size(largest), where)
		},
	}
}

// underIn is what kvd keys list is told to name a group of a running cluster's, or a file.
func underIn(file string, g keyspace.Group) string {
	if file == "" {
		return under(string(g.Prefix))
	}
	return " " + ShellWord(file)
}

// tooLarge judges a group of objects, of a running cluster or of a file.
func (in *Input) tooLarge(g keyspace.Group, sizes, count, file string) (Finding, bool) {
	f := Finding{Severity: Warning, Subject: groupName(g), Evidence: []Evidence{{What: "largest seen", Value: float64(g.Largest), Unit: Bytes, Source: sizes, At: in.At},
		{What: "keys", Value: float64(g.Keys), Unit: Count, Source: count, At: in.At}, {What: "in the mean", Value: mean(g), Unit: Bytes, Source: sizes, At: in.At}}}
	switch {
	case float64(g.Largest) >= in.Limits.ValueBytes:
		f.ID = "KVD-OBJECT-001"
		f.Summary = fmt.Sprintf("there is a value of %s in %s: etcd takes 1.5 MiB at most in a request, and a cluster with a lower limit cannot take it over", size(g.Largest), groupName(g))
		f.Remedy = []string{"kvd keys list" + underIn(file, g) + " --min-size 1MiB  # all of them", "store large content elsewhere, and its address here"}
	case isEndpoints(g) && float64(g.Largest) >= in.Limits.EndpointsBytes:
		f.ID = "KVD-OBJECT-002"
		f.Summary = fmt.Sprintf("an Endpoints object has %s, and is written whole with each change of one address", size(g.Largest))
		f.Remedy = []string{"have clients read EndpointSlices; label the Service so that no Endpoints are made of it"}
	case g.Keys >= 100 && mean(g) >= in.Limits.ObjectBytes:
		f.ID = "KVD-OBJECT-002"
		f.Summary = fmt.Sprintf("%s of %s have %s in the mean: each change writes one whole, and each list reads all", counted(g.Keys, "object"), groupName(g), size(int64(mean(g))))
		f.Remedy = []string{"kvd keys list" + underIn(file, g) + " --min-size 64KiB", "see what makes them large (managedFields, status, embedded files)"}
	}
	return f, f.ID != ""
}

func mean(g keyspace.Group) float64 { return g.Bytes.Bytes / float64(max(1, g.Keys)) }

// isEndpoints: the key says services/endpoints, which keys.Layout calls endpoints.
func isEndpoints(g keyspace.Group) bool {
	return g.Resource == "endpoints" || strings.HasSuffix(string(g.Prefix), "/services/endpoints/")
}
