package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/ops/fault"
)

// ofBoth are flags that a variant cannot have for itself: those of the comparison,
// and of where results go.
func ofBoth(flag string) bool {
	switch flag {
	case "ab", "repeats", "out", "html", "slo", "shard", "start-at":
		return true
	}
	return ofTheTarget(flag)
}

// ofTheTarget are flags that say which cluster is loaded, and whether it may be:
// those of throwaway clusters are known.
func ofTheTarget(flag string) bool {
	switch flag {
	case "metrics-url", "target-is-mine", "beside-kubernetes":
		return true
	}
	var client clientFlags
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	client.addFlags(fs)
	return fs.Lookup(flag) != nil
}

// arm makes a variant: the flags of this command line, and its own over them.
func (o *loadOptions) arm(variant string, knobs func() scenarioFlags) (loadgen.Arm, error) {
	one := func() (*loadOptions, error) {
		v := &loadOptions{knobs: knobs()}
		fs := pflag.NewFlagSet(variant, pflag.ContinueOnError)
		v.addFlags(fs)
		var errs []error
		o.fs.Visit(func(f *pflag.Flag) {
			if fs.Lookup(f.Name) == nil { // of every command: -o, --progress
				return
			}
			value := f.Value.String()
			switch list, isList := f.Value.(pflag.SliceValue); {
			case ofBoth(f.Name):
				return
			case isList:
				value = strings.Join(list.GetSlice(), ",")
			case f.Value.Type() == "size":
				value = cmp.Or(value, "0")
			}
			errs = append(errs, fs.Set(f.Name, value))
		})
		for _, word := range strings.Split(variant, ",") {
			name, value, ok := strings.Cut(strings.TrimLeft(strings.TrimSpace(word), "-"), "=")
			if !ok {
				value = "true"
			}
			if ofBoth(name) {
				errs = append(errs, &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "--ab", Subject: variant, Msg: "--" + name + " is not a variant's own: both arms are run alike, on throwaway clusters"})
				continue
			}
			if fs.Lookup(name) == nil {
				errs = append(errs, &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "--ab", Subject: variant, Msg: fmt.Sprintf("this load has no flag %q", "--"+name)})
				continue
			}
			if err := fs.Set(name, value); err != nil {
				errs = append(errs, &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "--ab", Subject: variant, Msg: err.Error()})
			}
		}
		return v, errors.Join(errs...)
	}
	v, err := one()
	if err != nil {
		return loadgen.Arm{}, err
	}
	if _, _, err := v.prepare(); err != nil {
		return loadgen.Arm{}, err
	}
	if err := v.ab.checkMembers(); err != nil {
		return loadgen.Arm{}, err
	}
	return loadgen.Arm{Name: variant, Options: v.Options, Members: v.ab.members, Quota: int64(v.ab.quota), Scenario: func() loadgen.Scenario {
		fresh, _ := one() // was made without an error above
		return k8s.WithCompaction(fresh.knobs.scenario(&fresh.Options, fresh.fs.Changed), fresh.compaction)
	}}, nil
}
