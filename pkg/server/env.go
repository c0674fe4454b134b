package server

import (
	"flag"
	"fmt"
	"maps"
	"slices"
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
// its ETCD_* variable. Where both are given the flag wins, with a warning. (etcd
// ends the process there, which hides a deliberate override on the command line
// behind a variable that an image or a unit file has set.)
func (f *flagSet) setFromEnv(env environment, c *Config) error {
	given := f.given()
	known := map[string]bool{"ETCD_VERSION": true, archEnv: true}
	if v := env.lookup("ETCD_VERSION"); v != "" {
		// Often set by image builders; as a flag it would print a version and end.
		c.note(true, "cannot set special environment variable", "key", "ETCD_VERSION", "value", v)
	}

	var first error
	f.set.VisitAll(func(fl *flag.Flag) {
		name := envName(fl.Name)
		value, present := env[name]
		if fl.Name == "version" || isOwnFlag(fl.Name) || first != nil {
			return
		}
		known[name] = true
		switch {
		case given[fl.Name]:
			c.origins[fl.Name] = "--" + fl.Name
			if present {
				c.note(true, "environment variable ignored: the flag is given too, and wins",
					"environment-variable", name, "flag", "--"+fl.Name)
			}
		case value == "":
		default:
			if err := f.set.Set(fl.Name, value); err != nil {
				first = usage("env", name, fmt.Sprintf("invalid value %q: %v", value, err), f.valueHint(fl.Name, err))
				return
			}
			c.origins[fl.Name] = name
			shown := value
			if isSecret(fl.Name) {
				shown = redacted
			}
			c.note(false, "recognized and used environment variable", "variable-name", name, "variable-value", shown)
		}
	})
	if first != nil {
		return first
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.HasPrefix(name, envPrefix) && !known[name] {
			c.note(true, "unrecognized environment variable", "environment-variable", name)
		}
	}
	return nil
}

// noteIgnored names the flags and variables that are ignored because there is
// a config file, which is all that etcd then reads.
func (c *Config) noteIgnored(fs *flagSet, env environment) {
	var ignored []string
	for name := range fs.given() {
		if name != "config-file" && !isIgnored(name) {
			ignored = append(ignored, "--"+name)
		}
	}
	for name, value := range env {
		if strings.HasPrefix(name, envPrefix) && value != "" && name != envName("config-file") && name != archEnv {
			ignored = append(ignored, name)
		}
	}
	if len(ignored) > 0 {
		slices.Sort(ignored)
		c.note(true, "ignored, since a config file is given: put it into the file",
			"ignored", strings.Join(ignored, ", "), "path", c.file)
	}
}
