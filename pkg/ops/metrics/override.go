package metrics

import (
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/fault"
)

// Overrides says at which address a member's metrics are, for members that
// don't serve them with their client URL: kubeadm's etcd has them on
// http://127.0.0.1:2381.
type Overrides map[string]string

// ParseOverrides reads NAME=URL, where NAME is a member's name or ID.
func ParseOverrides(args []string) (Overrides, error) {
	out := Overrides{}
	for _, a := range args {
		name, address, ok := strings.Cut(a, "=")
		if !ok || name == "" || address == "" {
			return nil, &fault.Error{Kind: fault.Usage, Cause: "metrics_url", Msg: fmt.Sprintf("--metrics-url %q is not NAME=URL", a),
				Hint: "for example --metrics-url cp-1=http://127.0.0.1:2381"}
		}
		if _, err := parse(address, false); err != nil {
			return nil, err
		}
		out[name] = address
	}
	return out, nil
}

// For returns the address of a member's metrics: the override for its name or
// its ID, else its client URL.
func (o Overrides) For(name, id, clientURL string) string {
	for _, key := range []string{name, id} {
		if a, ok := o[key]; ok && key != "" {
			return a
		}
	}
	return clientURL
}

// Unknown lists the names in the overrides that are no member's, sorted.
func (o Overrides) Unknown(known []string) []string {
	var out []string
	for name := range o {
		if !slices.Contains(known, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
