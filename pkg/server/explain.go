package server

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	servererrors "go.etcd.io/etcd/server/v3/etcdserver/errors"

	"kvd/pkg/ops/fault"
)

// hintForFlag looks at a flag that could not be parsed.
func (f *flagSet) hintForFlag(err error) string {
	text := err.Error()
	if _, unknown, ok := strings.Cut(text, "not defined: -"); ok {
		hint := "kvd serve takes etcd's own flags; kvd serve --help lists them"
		if like := f.like(unknown); like != "" {
			hint = "did you mean --" + like + "? " + hint
		}
		return hint
	}
	// The flag package says: invalid value "x" for flag -name: why
	_, rest, _ := strings.Cut(text, " for flag -")
	name, _, _ := strings.Cut(rest, ":")
	return f.valueHint(name, err)
}

// like is the flag that was probably meant: one that is spelled nearly so, or the
// only one that begins so.
func (f *flagSet) like(unknown string) string {
	var known, begin []string
	f.set.VisitAll(func(fl *flag.Flag) {
		if isIgnored(fl.Name) {
			return
		}
		known = append(known, fl.Name)
		if strings.HasPrefix(fl.Name, unknown+"-") {
			begin = append(begin, fl.Name)
		}
	})
	if len(begin) == 1 {
		return begin[0]
	}
	return nearest(unknown, known)
}

// valueHint says what the value of a flag must look like.
func (f *flagSet) valueHint(name string, err error) string {
	if h := urlHint(err); h != "" {
		return h
	}
	if name == embed.ServerFeatureGateFlagName {
		return gateHint
	}
	fl := f.set.Lookup(name)
	if fl == nil {
		return "kvd serve --help shows each flag and its default"
	}
	if g, ok := fl.Value.(flag.Getter); ok {
		switch g.Get().(type) {
		case time.Duration:
			return "a duration has a unit: 500ms, 5s, 10m, 1h"
		case bool:
			return "true or false"
		case uint, uint64, int, int64:
			return "a whole number without a unit (sizes are in bytes); the default is " + fl.DefValue
		}
	}
	return "kvd serve --help shows each flag and its default"
}

const gateHint = "NAME=true,NAME=false,…; kvd serve --help lists the feature gates of etcd 3.7 under --feature-gates"

// urlHint says what a URL must look like, if err is about one.
func urlHint(err error) string {
	if strings.Contains(err.Error(), "URL") || strings.Contains(err.Error(), `parse "`) {
		return "a URL is scheme://IP:port, for example http://127.0.0.1:2379, several separated by commas"
	}
	return ""
}

// explainInvalid turns what etcd's validation says into an error for people.
// source is the config file's path, or empty for flags and environment.
func explainInvalid(err error, source string) error {
	var already *fault.Error
	if errors.As(err, &already) {
		return err
	}
	cause, hint := "invalid", ""
	text := err.Error()
	switch {
	case errors.Is(err, embed.ErrUnsetAdvertiseClientURLsFlag):
		cause = "advertise_client_urls"
		hint = "clients are sent to these addresses: set --advertise-client-urls to URLs that they can reach"
	case errors.Is(err, embed.ErrConflictBootstrapFlags):
		cause = "conflict"
		hint = "a cluster is found in one way only: --initial-cluster, --discovery-endpoints or --discovery-srv"
	case strings.Contains(text, "expected IP in URL for binding"):
		cause = "url"
		hint = "listen on an IP address (0.0.0.0 for all); names belong in the advertised URLs"
	case strings.Contains(text, "--election-timeout"):
		hint = "election-timeout is at least 5 times heartbeat-interval, and at most 50000 (ms)"
	case urlHint(err) != "":
		cause, hint = "url", urlHint(err)
	case strings.Contains(text, "feature gate"):
		hint = gateHint
	case strings.Contains(text, "log format"), strings.Contains(text, "logger option"):
		hint = "--log-format is json or console, --logger is zap"
	case strings.Contains(text, "auto-compaction-mode"):
		hint = "--auto-compaction-mode is periodic or revision"
	case strings.Contains(text, "TLS version"), strings.Contains(text, "min version"):
		hint = "--tls-min-version and --tls-max-version are TLS1.2 or TLS1.3, the first not above the second"
	case strings.Contains(text, "cipher suites"):
		hint = "TLS 1.3 chooses its own: drop --cipher-suites or --tls-min-version"
	case strings.Contains(text, "log-outputs"), strings.Contains(text, "log rotation"):
		hint = "log rotation wants one file in --log-outputs and a JSON object in --log-rotation-config-json"
	case strings.Contains(text, "discovery-token"), strings.Contains(text, "discovery-endpoints"):
		hint = "discovery needs both --discovery-token and --discovery-endpoints"
	case strings.Contains(text, "must be >0"):
		hint = "leave the flag out for etcd's default"
	case strings.Contains(text, "of type time.Duration"):
		hint = "in etcd's config file a duration is a number of nanoseconds: 5s is 5000000000"
	case strings.Contains(text, "json: cannot unmarshal"), strings.Contains(text, "error unmarshaling"):
		hint = "lists are written [a, b], URLs as one text with commas, numbers and true or false without quotes"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		cause, hint = "file", "check the path and who may read or write it"
	}
	return usageErr(cause, source, err, hint)
}

// startFailure is one way in which a start fails: a piece of etcd's text, and
// what it means.
type startFailure struct {
	text  string
	kind  fault.Kind
	cause string
	hint  string
}

// startFailures are matched in order. The texts are etcd 3.7.3's
// (etcdserver/bootstrap.go, config/config.go, embed/etcd.go).
func startFailures() []startFailure {
	return []startFailure{
		{"couldn't find local name", fault.Usage, "initial_cluster",
			"add this member to --initial-cluster as NAME=PEER-URL, or correct --name"},
		{"missing from --initial-advertise-peer-urls", fault.Usage, "initial_cluster",
			"--initial-cluster must name exactly the URLs in --initial-advertise-peer-urls for this member"},
		{"missing from --initial-cluster", fault.Usage, "initial_cluster",
			"--initial-cluster must name exactly the URLs in --initial-advertise-peer-urls for this member"},
		{"failed to resolve", fault.Usage, "initial_cluster", "check the host names in --initial-cluster and DNS"},
		{"has duplicate url", fault.Usage, "initial_cluster", "each member needs peer URLs of its own"},
		{"initial cluster unset", fault.Usage, "initial_cluster", "set --initial-cluster"},
		{"has already been bootstrapped", fault.Refused, "already_bootstrapped",
			"this member has lost its data: remove it, add it again, and start it with --initial-cluster-state existing"},
		{"member count is unequal", fault.Usage, "initial_cluster",
			"--initial-cluster must list exactly the members of the running cluster (kvd member list); was this one added first?"},
		{"error validating peerURLs", fault.Usage, "initial_cluster",
			"--initial-cluster must list exactly the members of the running cluster (kvd member list)"},
		{lostLogText, fault.Damage, "log_lost",
			"this member's log went backwards: an old data directory was put back, or the disk lost confirmed writes. " +
				"It cannot be repaired: keep the directory aside and run kvd member replace on a member that is well"},
		{"cannot fetch cluster info from peer urls", fault.Unavailable, "no_peer",
			"joining an existing cluster needs one of its members to answer at the peer URLs in --initial-cluster"},
		{"incompatible with current running cluster", fault.Refused, "version", "the cluster's version does not take this one"},
		{"too many learner members", fault.Refused, "too_many_learners",
			"by the member list there are more learners than --max-learners (1 if it is not given): start it with --max-learners as the other members have it. " +
				"If they should be voters, as they may be after an update from 3.5, kvd wal verify on the data directory says what to do"},
		{"server version is lower than determined cluster version", fault.Refused, "version", newerHint},
		{"\" is not supported", fault.Refused, "version", newerHint}, // version "3.8.0"
		{"cannot access data directory", fault.Unavailable, "data_dir", "check that --data-dir can be created and written"},
		{"cannot access member directory", fault.Unavailable, "data_dir", "check that --data-dir can be written"},
		{"failed to create snapshot directory", fault.Unavailable, "data_dir", "check that --data-dir can be written"},
		{"cannot write to", fault.Unavailable, "data_dir", "check that the directory can be written"},
		{"invalid database", fault.Damage, causeBackend, dbHint},
		{"checksum error", fault.Damage, causeBackend, dbHint},
		{"failed to open database", fault.Unavailable, "data_dir", "check who may read and write the database file"},
		{"self-signed cert", fault.Unavailable, "data_dir", "--auto-tls writes certificates below --data-dir: check that it can be written"},
		{"of the backend is missing", fault.Damage, "backend_missing", "restore this member's data directory from a snapshot, or run kvd member replace on a member that is well"},
		{"does not match with snapshot", fault.Damage, "backend_mismatch", "restore this member's data directory from a snapshot, or run kvd member replace on a member that is well"},
		{"failed to create WAL", fault.Unavailable, "data_dir", "check that --data-dir and --wal-dir can be created and written; " +
			"a mount point itself can't be --wal-dir, since etcd makes that folder anew: give a folder in it"},
		{"failed to open WAL", fault.Damage, causeWAL, walHint},
		{"failed to read WAL", fault.Damage, causeWAL, walHint},
		{uncutText, fault.Unavailable, causeWAL, uncutHint}, // see hearing.because
		{repairFailed, fault.Damage, causeWAL, walHint},
		{"crc mismatch", fault.Damage, causeWAL, walHint},
		{"wal: ", fault.Damage, causeWAL, walHint},
		{"cannot parse invalid wire-format data", fault.Damage, causeWAL, walHint},
		{"unexpected EOF", fault.Damage, causeWAL, walHint},
		{"file descriptor limit", fault.Unavailable, "file_descriptors", "raise the limit of open files (ulimit -n) above 150; 65536 is usual"},
		{"error querying DNS SRV records", fault.Unavailable, "discovery", "check --discovery-srv and DNS"},
		{"error setting up initial cluster", fault.Usage, "initial_cluster",
			"--initial-cluster is NAME=URL,NAME=URL,… with a URL like http://10.0.0.1:2380"},
		{"invalid auth options", fault.Usage, "invalid", "--auth-token is simple, or jwt,pub-key=FILE,priv-key=FILE,sign-method=RS256"},
		{"TLS cipher suite", fault.Usage, "invalid", "--cipher-suites takes Go's names, for example TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		{"cannot bind both", fault.Usage, "conflict", "--listen-client-http-urls needs addresses of its own"},
		{"TLS key/cert", fault.Usage, "certificate_missing", "give --cert-file and --key-file"},
		{"CompactionRetention", fault.Usage, "invalid", "--auto-compaction-retention is a duration (5m) or, in revision mode, a number"},
		{"cannot find local etcd member", fault.Usage, "initial_cluster", "the SRV records must contain one of this member's advertised peer URLs"},
	}
}

// Causes of starts that fail for damaged files.
const (
	causeWAL     = "wal"
	causeBackend = "backend_damaged"
)

const (
	newerHint = "a newer etcd has written the data directory, and nothing is damaged: start that version or a later one; " +
		"kvd wal verify on the data directory says how a cluster is taken back to an older version"
	walHint = "the write-ahead log cannot be read: keep a copy of it, then run kvd member replace on a member that is well; " +
		"the only member is restored from a snapshot"
	repairFailed = "failed to repair WAL"
	uncutText    = "its torn end could not be cut"
	// uncutHint is for a log of which only the torn end was to be cut, which etcd keeps as
	// FILE.broken.
	uncutHint = "the log's end is torn, which etcd repairs by itself, and here it could not: mend what is said here and start it again; the member need not be replaced"
	// dbHint goes with bbolt's own words for a file whose two meta pages are no good.
	dbHint = "member/snap/db is not a database any more: keep a copy of the data directory, then run kvd member replace on a member that is well; " +
		"the only member is restored from a snapshot"
)

// explainStart turns the error of a start into one for people.
func explainStart(cfg *embed.Config, err error) error {
	var already *fault.Error
	if errors.As(err, &already) {
		return err
	}
	out := &fault.Error{Kind: fault.Internal, Op: opServe, Subject: cfg.Name, Err: err}
	var discovery *servererrors.DiscoveryError
	var op *net.OpError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		out.Kind, out.Cause, out.Msg = fault.Interrupted, "stopped", "stopped while starting"
		return out
	case errors.Is(err, syscall.EADDRINUSE):
		out.Kind, out.Cause = fault.Unavailable, "address_in_use"
		out.Hint = "another process listens there (ss -ltnp shows which): stop it, or listen elsewhere"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		out.Kind, out.Cause = fault.Usage, "address_not_available"
		out.Hint = "this machine has no such address; listen on one of its own, or on 0.0.0.0"
	case errors.As(err, &op) && errors.Is(err, syscall.EACCES):
		out.Kind, out.Cause = fault.Unavailable, "permission_denied"
		out.Hint = "ports below 1024 need a privilege; take a higher one"
	case errors.As(err, &discovery):
		out.Kind, out.Cause = fault.Unavailable, "discovery"
		out.Hint = "is the discovery service there, and is the token new? A token bootstraps one cluster only"
	default:
		explainText(cfg, err, out)
		explainErrno(err, out)
	}
	return out
}

// explainText goes by etcd's words.
func explainText(cfg *embed.Config, err error, out *fault.Error) {
	for _, f := range startFailures() {
		if strings.Contains(err.Error(), f.text) {
			out.Kind, out.Cause, out.Hint = f.kind, f.cause, f.hint
			if path := damaged(cfg, f); path != "" {
				out.Subject = path // etcd's words seldom tell
			}
			if names, err := types.NewURLsMap(cfg.InitialCluster); f.cause == "no_peer" && err == nil && len(names) == 1 {
				out.Hint = "--initial-cluster names no member but " + cfg.Name + ": several under one name are read as one, so give each a name of its own; for the start those of the others are labels only"
			}
			return
		}
	}
}

// explainErrno goes by what the system said of a file. That is no defect, and it damages
// nothing, though etcd says of a log that it could not open or write.
func explainErrno(err error, out *fault.Error) {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		out.Kind, out.Cause = fault.Unavailable, "disk_full"
		out.Hint = "make room on the disk of --data-dir (and --wal-dir), and start it again: what was acknowledged is in the log"
	case out.Kind != fault.Damage && out.Kind != fault.Internal && out.Hint != uncutHint: // said better by the text
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		out.Kind, out.Cause = fault.Unavailable, "data_dir"
		out.Hint = "check that the user who runs it may read and write all that is in --data-dir (and --wal-dir), and that the file system is not read-only"
	}
}

// damaged is the path of the file or folder that a failed start is about, empty
// where it is not about one.
func damaged(cfg *embed.Config, f startFailure) string {
	switch f.cause {
	case causeWAL:
		return walPath(cfg)
	case causeBackend:
		return dbPath(cfg)
	}
	return ""
}
