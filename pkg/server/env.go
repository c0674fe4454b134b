package server

import (
	"flag"
	"fmt"
	"strings"
)

// envPrefix starts the name of every variable that etcd reads.
const envPrefix = "ETCD_"

// envName is the variable that stands for a flag: data-dir → ETCD_DATA_DIR.
func envName(flagName string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// environment is a process environment, the last of equal names winning.
type environment map[string]string

func parseEnviron(environ []string) environment {
	env := make(environment, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	return env
}

// lookup returns the value of a variable, or "".
func (e environment) lookup(name string) string { return e[name] }

// setFromEnv gives every flag that was not set on the command line the value of
// its ETCD_* variable. A variable whose flag was given too is an error, even an
// empty one: etcd ends the process there, so a script cannot rely on it.
func (f *flagSet) setFromEnv(env environment, c *Config) error {
	given := map[string]bool{}
	f.set.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	known := map[string]bool{"ETCD_VERSION": true, archEnv: true}
	if v := env.lookup("ETCD_VERSION"); v != "" {
		// Often set by image builders; as a flag it would print a version and end.
		c.note(true, "cannot set special environment variable", "key", "ETCD_VERSION", "value", v)
	}

	var first error
	f.set.VisitAll(func(fl *flag.Flag) {
		name := envName(fl.Name)
		value, present := env[name]
		if fl.Name == "version" || first != nil {
			return
		}
		known[name] = true
		switch {
		case given[fl.Name] && present:
			first = usage("conflict", "--"+fl.Name,
				fmt.Sprintf("given both as a flag and as %s in the environment", name),
				fmt.Sprintf("drop the flag, or unset %s", name))
		case given[fl.Name] || value == "":
		default:
			if err := f.set.Set(fl.Name, value); err != nil {
				first = usage("env", name, fmt.Sprintf("invalid value %q: %v", value, err), urlHint(err))
				return
			}
			shown := value
			if strings.Contains(fl.Name, "password") || fl.Name == "discovery-user" {
				shown = "(hidden)"
			}
			c.note(false, "recognized and used environment variable", "variable-name", name, "variable-value", shown)
		}
	})
	if first != nil {
		return first
	}
	for name := range env {
		if strings.HasPrefix(name, envPrefix) && !known[name] {
			c.note(true, "unrecognized environment variable", "environment-variable", name)
		}
	}
	return nil
}
