package server

import (
	"flag"

	"go.etcd.io/etcd/server/v3/embed"
)

// What the tests compare with etcd's own, and nobody else asks for.

// FilePaths says for each flag where its value stands in a config file. Flags
// that a file cannot say are not in it.
func FilePaths() map[string]string {
	paths := map[string]string{}
	newPaths(func(flagName, path string) { paths[flagName] = path })
	return paths
}

// VisitEtcdFlags calls f for each flag that etcd has, ignored ones too, in
// alphabetical order.
func VisitEtcdFlags(f func(*flag.Flag)) {
	boundTo(embed.NewConfig()).set.VisitAll(func(fl *flag.Flag) {
		if !isOwnFlag(fl.Name) {
			f(fl)
		}
	})
}
