package server

import (
	"flag"
	"slices"
)

// ownFlags are the few flags of kvd serve that are not etcd's. They have no
// ETCD_* variables and no place in etcd's config file.
type ownFlags struct {
	profile    string
	print      bool
	output     string
	outputLong string
}

func ownFlagNames() []string { return []string{"profile", "print-config", "o", "output"} }

func isOwnFlag(name string) bool { return slices.Contains(ownFlagNames(), name) }

func isIgnored(name string) bool { return slices.Contains(ignoredFlags(), name) }

func (o *ownFlags) add(fs *flag.FlagSet) {
	fs.StringVar(&o.profile, "profile", "", "Defaults for a purpose, under whatever else is given: kubernetes or standalone.")
	fs.BoolVar(&o.print, "print-config", false, "Print the effective configuration and where each value comes from, and exit.")
	fs.StringVar(&o.output, "o", "", "How --print-config prints: table, json or yaml.")
	fs.StringVar(&o.outputLong, "output", "", "The same as -o.")
}
