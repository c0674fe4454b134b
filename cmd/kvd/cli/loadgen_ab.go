package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/ops/fault"
)

// abFlags are those of an A/B run.
type abFlags struct {
	variants []string
	repeats  int
	members  int
	quota    byteSize
	fs       *pflag.FlagSet
}

func (f *abFlags) addFlags(fs *pflag.FlagSet) {
	f.fs = fs
	fs.StringArrayVar(&f.variants, "ab", nil, "`VARIANT_A` VARIANT_B: run both in turns on throwaway clusters; a variant is flags of this command, as in mode=lease,period=20s")
	fs.IntVar(&f.repeats, "repeats", 5, "with --ab: runs of each variant")
	fs.IntVar(&f.members, "members", 1, "with --ab: members of each cluster")
	fs.Var(&f.quota, "quota", "with --ab: --quota-backend-bytes of each member")
}

func (f *abFlags) given() bool { return len(f.variants) > 0 }

// take takes what is not a flag: the second variant.
func (f *abFlags) take(args []string) error {
	bad := func(msg string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "arguments", Op: "loadgen", Msg: msg, Hint: "as in --ab mode=node-status mode=lease"}
	}
	if !f.given() {
		if len(args) > 0 {
			return bad(fmt.Sprintf("%q is not a flag", args[0]))
		}
		for _, name := range []string{"repeats", "members", "quota"} {
			if f.fs.Changed(name) { // a load of a running cluster, which it does not change
				return bad("--" + name + " is of the throwaway clusters of --ab")
			}
		}
		return nil
	}
	f.variants = append(f.variants, args...)
	switch {
	case len(f.variants) != 2:
		return bad(fmt.Sprintf("--ab takes two variants, and %d were given", len(f.variants)))
	case f.repeats < 2:
		return bad("--repeats must be 2 or more: from one run of each nothing follows")
	}
	return f.checkMembers()
}

func (f *abFlags) checkMembers() error {
	if f.members != 1 && f.members != 3 && f.members != 5 {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "loadgen", Msg: "--members must be 1, 3 or 5"}
	}
	return nil
}

// checkAB refuses flags that an A/B run has no use for: passed over, they would have
// been taken for obeyed.
func (o *loadOptions) checkAB() error {
	bad := func(msg, hint string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "loadgen", Msg: msg, Hint: hint}
	}
	if len(o.slo) > 0 {
		return bad("--slo judges a run, and --ab compares many: give one of them", "")
	}
	if o.startAt != "" || o.Shard.Of > 0 {
		return bad("--ab plays all of the load, on clusters that nobody else knows of: --shard and --start-at are not for it", "")
	}
	var target []string
	o.fs.Visit(func(f *pflag.Flag) {
		if ofTheTarget(f.Name) {
			target = append(target, "--"+f.Name)
		}
	})
	if len(target) > 0 {
		return bad("--ab runs on throwaway clusters of its own, and loads no other: "+strings.Join(target, ", ")+" would have no effect",
			"leave it out; to compare on that cluster run each variant there by itself with --out, and then `kvd loadgen compare A B`")
	}
	return nil
}

// runAB runs two variants of a scenario and compares them.
func runAB(ctx context.Context, app *App, o *loadOptions, knobs func() scenarioFlags) error {
	if err := o.checkAB(); err != nil {
		return err
	}
	var arms [2]loadgen.Arm
	for i, variant := range o.ab.variants {
		arm, err := o.arm(variant, knobs)
		if err != nil {
			return err
		}
		arms[i] = arm
	}
	files, err := openLoadFiles(o.out, o.html)
	if err != nil {
		return err
	}
	stop := app.interrupts.goGentle(func() { app.warn("%s", "stopping: the run in hand is cut short (once more: leave at once)") })
	runs, err := loadgen.AB(ctx, arms, loadgen.ABOptions{Repeats: o.ab.repeats}, stop, app.Progress())
	all := slices.Concat(runs[0], runs[1])
	for _, r := range all {
		r.Kvd = version
	}
	if err == nil && len(all) < 2*o.ab.repeats || fault.KindOf(err) == fault.Interrupted {
		err = &fault.Error{Kind: fault.Interrupted, Msg: fmt.Sprintf("stopped by hand after %d of %d runs: nothing follows from them", len(all), 2*o.ab.repeats)}
	}
	kept := loadFiles{out: files.out}
	if err != nil {
		if len(all) > 0 {
			err = errors.Join(err, kept.write(all, nil))
		}
		return err
	}
	return errors.Join(app.compareLoads(runs[0], runs[1], loadFiles{html: files.html}), kept.write(all, nil))
}
