package server

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/pkg/v3/featuregate"
	cconfig "go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Config is what one etcd server is to be started with. Parse makes it; it is
// used for one Start, and by one goroutine.
type Config struct {
	// ShowHelp, ShowVersion and PrintConfig are set when the arguments ask for
	// help, the version or the effective configuration; there is nothing to start
	// then. Output is how to print the last: table, json, yaml, or "" for either.
	ShowHelp    bool
	ShowVersion bool
	PrintConfig bool
	Output      string

	etcd                  *embed.Config
	args                  []string
	file                  string // of the config file, "" where there is none
	profile               Profile
	defaultInitialCluster string
	derived               bool
	origins               map[string]string // of the settings that are not defaults, by key
	notes                 []note            // said once the server's own logger is there
}

// note is a line for the server's log that came up before there was a log.
type note struct {
	warn   bool
	msg    string
	fields []string // alternating keys and values
}

// Etcd returns the configuration in etcd's own terms. Changing it changes what
// Start starts.
func (c *Config) Etcd() *embed.Config { return c.etcd }

// WALDir is the folder of the member's write-ahead log, and DBPath the file of its database.
func (c *Config) WALDir() string { return walPath(c.etcd) }
func (c *Config) DBPath() string { return dbPath(c.etcd) }

// Source says where the settings come from: a config file's path, or flags and
// environment.
func (c *Config) Source() string {
	if c.file != "" {
		return c.file
	}
	return "flags and environment"
}

// Profile is the name of the profile that lies under the settings, or "".
func (c *Config) Profile() string { return c.profile.Name }

// Parse reads the command line (without the program's name) and the environment
// (as os.Environ gives it) by etcd's rules: with a config file (--config-file or
// ETCD_CONFIG_FILE) everything else is ignored, otherwise an ETCD_* variable is
// the value of the flag it stands for. Where both are given the flag wins with a
// warning; etcd refuses to start there. Errors are *fault.Error of kind
// fault.Usage. Log files named in the configuration are opened.
func Parse(args, environ []string) (*Config, error) {
	c := &Config{etcd: embed.NewConfig(), args: args, origins: map[string]string{}}
	c.defaultInitialCluster = c.etcd.InitialCluster
	fs := newFlagSet(c.etcd)

	if err := fs.set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			c.ShowHelp = true
			return c, nil
		}
		return nil, usage("flag", "", err.Error(), fs.hintForFlag(err))
	}
	if fs.set.NArg() > 0 {
		return nil, fs.strayArgument(args)
	}
	if fs.printVersion {
		c.ShowVersion = true
		return c, nil
	}
	if err := c.takeOwn(fs.own); err != nil {
		return nil, err
	}

	env := parseEnviron(environ)
	c.file = fs.configFile
	if c.file == "" {
		c.file = env.lookup(envName("config-file"))
	}
	var err error
	if c.file != "" {
		c.noteIgnored(fs, env)
		err = c.fromFile()
	} else {
		err = c.fromFlags(fs, env)
	}
	if err != nil {
		return nil, err
	}
	c.enforce()
	c.leaveRetention()
	c.noteProfile()
	return c, nil
}

// takeOwn reads kvd's own flags.
func (c *Config) takeOwn(own ownFlags) error {
	var err error
	if c.profile, err = profileNamed(own.profile); err != nil {
		return err
	}
	c.PrintConfig, c.Output = own.print, cmp.Or(own.output, own.outputLong)
	switch c.Output {
	case "", "table", "json", "yaml":
	default:
		return usage("flag", "-o "+c.Output, "no such output format", "one of table, json, yaml")
	}
	if c.Output != "" && !c.PrintConfig {
		return usage("flag", "-o", "kvd serve prints nothing but its log", "-o goes with --print-config")
	}
	return nil
}

// fromFlags fills the configuration from flags and environment.
func (c *Config) fromFlags(fs *flagSet, env environment) error {
	given := fs.given()
	if err := c.applyProfile(fs, func(key string) bool { return given[key] }); err != nil {
		return err
	}
	if err := fs.setFromEnv(env, c); err != nil {
		return err
	}
	fs.copyTo(c.etcd, c)
	for _, gate := range gatesSet(c.etcd.ServerFeatureGate.(featuregate.MutableFeatureGate)) { //nolint:forcetypeassert // embed makes it
		c.origins[gateKey(gate)] = c.origins[embed.ServerFeatureGateFlagName]
	}
	if err := c.applyProfileGates(); err != nil {
		return err
	}
	if fs.fallback.String() == fallbackProxy {
		return usage("flag", "--discovery-fallback",
			"the v2 proxy no longer exists, so discovery cannot fall back to it",
			"leave --discovery-fallback at \"exit\"")
	}
	if c.PrintConfig { // no log file is made, and what validation warns of is for the log
		c.etcd.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	}
	return c.validate("")
}

// enforce sets what etcd sets whatever the input says, and notes deprecations.
func (c *Config) enforce() {
	c.etcd.V2Deprecation = cconfig.V2DeprDefault
	delete(c.origins, "v2-deprecation")
	if c.etcd.WarningUnaryRequestDuration == 0 {
		c.etcd.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	}
	for _, d := range deprecated() {
		if c.etcd.FlagsExplicitlySet[d.flag] { // by a file too
			c.note(true, d.msg)
		}
	}
}

// validate runs kvd's checks, which stop what would end the process inside
// etcd, and then etcd's own. source is the config file, or empty.
func (c *Config) validate(source string) error {
	if err := checkBeforeLogging(c.etcd); err != nil {
		return err
	}
	if err := c.etcd.Validate(); err != nil {
		return explainInvalid(err, source)
	}
	if err := checkTLS(c.etcd); err != nil {
		return err
	}
	return checkAuthToken(c.etcd.AuthToken)
}

func (c *Config) note(warn bool, msg string, fields ...string) {
	c.notes = append(c.notes, note{warn: warn, msg: msg, fields: fields})
}

// VersionText is what `etcd --version` prints, with kvd named as what runs it.
func VersionText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "etcd Version: %s\n", version.Version)
	fmt.Fprintf(&b, "Git SHA: %s\n", version.GitSHA)
	fmt.Fprintf(&b, "Go Version: %s\n", runtime.Version())
	fmt.Fprintf(&b, "Go OS/Arch: %s/%s\n", runtime.GOOS, runtime.GOARCH)
	return b.String()
}

// strayArgument explains the argument, of these, at which reading the flags ended.
// The two subcommands of the etcd binary are named, since a drop-in would be
// expected to have them; and a boolean takes no word after it.
func (f *flagSet) strayArgument(args []string) error {
	arg, at := f.set.Arg(0), len(args)-f.set.NArg()
	switch arg {
	case "gateway", "grpc-proxy":
		return usage("unsupported", arg, "kvd does not contain etcd's "+arg, "run it with the etcd binary: etcd "+arg)
	case "":
		return usage("flag", `""`, fmt.Sprintf("argument %d of %d is empty, and not a flag", at+1, len(args)), "look for an unset variable or a blank line where the flags are from")
	case "true", "false":
		if at > 0 {
			name := strings.TrimLeft(args[at-1], "-")
			return usage("flag", "--"+name+" "+arg, "a boolean flag takes its value with = only, and would be true here", fmt.Sprintf("--%s=%s", name, arg))
		}
	}
	return usage("flag", arg, "not a flag", "etcd's flags start with -- ; kvd serve --help lists them")
}
