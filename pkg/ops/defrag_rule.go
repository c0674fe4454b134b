package ops

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// DefragRule is a condition on one member, such as "usage_ratio > 0.8".
type DefragRule struct {
	text      string
	program   *vm.Program
	names     []string // of the variables in it, sorted
	wantQuota bool
}

// ruleVars are the names that a rule may use. Sizes are in bytes, ratios are 0
// to 1 (above 1 where a file is larger than its quota). The last group are the
// names of etcd-defrag (github.com/ahrtr/etcd-defrag, --defrag-rule), so that
// its rules work here.
type ruleVars struct {
	Name    string `expr:"name"`
	Version string `expr:"version"`

	DBSize     int     `expr:"db_size"`     // the file
	DBInUse    int     `expr:"db_in_use"`   // of it in use
	DBFree     int     `expr:"db_free"`     // of it free: the predicted gain
	Quota      int     `expr:"quota"`       // the member's own; the largest number where it has none
	QuotaFree  int     `expr:"quota_free"`  // quota - db_size
	UsageRatio float64 `expr:"usage_ratio"` // db_size / quota; 0 where there is no quota
	FreeRatio  float64 `expr:"free_ratio"`  // db_free / db_size
	InUseRatio float64 `expr:"in_use_ratio"`
	RaftLag    int     `expr:"raft_lag"` // entries committed and not applied
	IsLeader   bool    `expr:"is_leader"`
	NoSpace    bool    `expr:"nospace"` // a NOSPACE alarm is raised for this member
	Revision   int     `expr:"revision"`

	KiB int `expr:"KiB"`
	MiB int `expr:"MiB"`
	GiB int `expr:"GiB"`

	EtcdDbSize       int     `expr:"dbSize"`
	EtcdDbSizeInUse  int     `expr:"dbSizeInUse"`
	EtcdDbSizeFree   int     `expr:"dbSizeFree"`
	EtcdDbQuota      int     `expr:"dbQuota"`
	EtcdDbQuotaUsage float64 `expr:"dbQuotaUsage"`
}

// ruleNames lists the names for hints.
const ruleNames = "db_size, db_in_use, db_free, quota, quota_free (bytes); usage_ratio, free_ratio, in_use_ratio (0 to 1); " +
	"raft_lag, revision, is_leader, nospace, name, version; KiB, MiB, GiB, bytes(\"200MiB\"); and etcd-defrag's dbSize, dbSizeInUse, dbSizeFree, dbQuota, dbQuotaUsage"

// quotaNames are those that can't be had without knowing the quota.
var quotaNames = [...]string{"quota", "quota_free", "usage_ratio", "dbQuota", "dbQuotaUsage"}

// CompileDefragRule reads a rule. An empty one is nil, which no member is asked.
// What is not a condition is an error of kind Usage that says where.
func CompileDefragRule(text string) (*DefragRule, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	sense := &ruleSense{text: text}
	program, err := expr.Compile(text, expr.Env(ruleVars{}), expr.AsBool(), expr.DisableAllBuiltins(), expr.MaxNodes(500),
		expr.Function("bytes", parseBytes, new(func(string) int)),
		expr.Function(compareVersions, versionOrder, new(func(string, string) int)), expr.Patch(sense))
	if err != nil {
		return nil, ruleError(text, err)
	}
	if sense.err != nil {
		return nil, sense.err
	}
	r := &DefragRule{text: text, program: program}
	node := program.Node()
	ast.Walk(&node, r)
	slices.Sort(r.names)
	return r, nil
}

// Visit notes the names that the rule uses.
func (r *DefragRule) Visit(node *ast.Node) {
	id, ok := (*node).(*ast.IdentifierNode)
	if !ok || slices.Contains(r.names, id.Value) || slices.Contains([]string{"KiB", "MiB", "GiB", "bytes", compareVersions}, id.Value) {
		return
	}
	r.names = append(r.names, id.Value)
	r.wantQuota = r.wantQuota || slices.Contains(quotaNames[:], id.Value)
}

func parseBytes(args ...any) (any, error) {
	s, _ := args[0].(string)
	n, err := humanize.ParseBytes(s)
	if err != nil || n > math.MaxInt64 {
		return nil, fmt.Errorf("%q is not a size, such as \"200MiB\"", s)
	}
	return int(n), nil
}

func ruleError(text string, err error) error {
	e := &fault.Error{Kind: fault.Usage, Cause: "rule", Op: "defrag", Subject: "--if", Err: err, Hint: "names are " + ruleNames}
	if hint := sizeHint(text); hint != "" {
		e.Hint = hint
	}
	var at *file.Error
	if errors.As(err, &at) {
		e.Err = nil
		e.Msg = fmt.Sprintf("%s, at line %d, column %d of %q", at.Message, max(at.Line, 1), at.Column+1, text)
	}
	return e
}

// ruleInput is one member as a rule sees it.
type ruleInput struct {
	vars       ruleVars
	label      string
	version    string
	quotaKnown bool
}

func (d *defragmentation) ruleInput(view cluster.View, m cluster.Member) ruleInput {
	view = view.QuotasLike(d.quotas)
	if d.opts.Quota != 0 {
		view = view.AssumeQuota(d.opts.Quota)
	}
	m, _ = view.MemberByID(m.ID)
	s := m.Status
	v := ruleVars{
		Name: m.Name, Version: s.Version, DBSize: int(s.DBSize), DBInUse: int(s.DBInUse), DBFree: int(gainOf(s)),
		RaftLag: int(view.Lag(m)), IsLeader: m.ID == view.Leader, Revision: int(s.Revision), //nolint:gosec // far below 2^63
		NoSpace: slices.Contains(view.AlarmsOf(m.ID), cluster.AlarmNoSpace),
		KiB:     1 << 10, MiB: 1 << 20, GiB: 1 << 30,
	}
	if s.DBSize > 0 {
		v.FreeRatio, v.InUseRatio = float64(gainOf(s))/float64(s.DBSize), float64(s.DBInUse)/float64(s.DBSize)
	}
	quota := s.EffectiveQuota()
	switch quota {
	case cluster.QuotaUnknown:
	case cluster.QuotaDisabled:
		v.Quota, v.QuotaFree = math.MaxInt, math.MaxInt
	default:
		v.Quota, v.QuotaFree = int(quota), int(quota-s.DBSize)
		v.UsageRatio, _ = s.UsageRatio()
	}
	v.EtcdDbSize, v.EtcdDbSizeInUse, v.EtcdDbSizeFree = v.DBSize, v.DBInUse, v.DBFree
	v.EtcdDbQuota, v.EtcdDbQuotaUsage = v.Quota, v.UsageRatio
	return ruleInput{vars: v, label: m.Label(), version: s.Version, quotaKnown: quota != cluster.QuotaUnknown}
}

// Ask evaluates the rule for one member; where the answer is no, why says with
// which numbers.
func (r *DefragRule) Ask(in ruleInput) (yes bool, why string, err error) {
	if r.wantQuota && !in.quotaKnown {
		return false, "", &fault.Error{Kind: fault.Usage, Cause: "quota_unknown", Op: "defrag", Subject: in.label,
			Msg:  fmt.Sprintf("the rule asks for the quota, and etcd %s %s", in.version, quotaUnread),
			Hint: "say where they are with --metrics-url, or what the member was started with: --quota BYTES (--quota-backend-bytes; 2147483648 where that is not set)"}
	}
	out, err := expr.Run(r.program, in.vars)
	if err != nil {
		return false, "", ruleError(r.text, err)
	}
	yes, _ = out.(bool)
	return yes, fmt.Sprintf("the rule %q is false: %s", r.text, in.values(r.names)), nil
}

// values shows the values of the named variables.
func (in ruleInput) values(names []string) string {
	var out []string
	for _, n := range names {
		v, err := expr.Eval(n, in.vars)
		if err != nil {
			continue
		}
		if f, ok := v.(float64); ok {
			out = append(out, fmt.Sprintf("%s = %.3f", n, f))
		} else {
			out = append(out, fmt.Sprintf("%s = %v", n, v))
		}
	}
	return strings.Join(out, ", ")
}
