package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

const opLeaseRevoke = "lease revoke"

// mostLeaseRate is how many leases may be revoked per second at most: etcd itself
// revokes no more that have expired (defaultLeaseRevokeRate in server/lease/lessor.go).
const mostLeaseRate = 1000

// LeaseRevokeOptions says which leases to revoke, and how fast.
type LeaseRevokeOptions struct {
	IDs         []string      // these, as ParseLeaseID reads them
	WithoutKeys bool          // or all that no key is on
	GrantedOver time.Duration // of those without keys, only what was granted for longer than this; 0: any
	Rate        int           // leases per second at most that are asked for, and that are revoked
	Layout      keys.Layout   // under which prefixes Kubernetes stores its objects
	MeanIt      []string      // what is protected and is to go with its lease all the same, by its name
}

// DefaultLeaseRevokeOptions returns what `kvd lease revoke` does when told nothing.
func DefaultLeaseRevokeOptions() LeaseRevokeOptions {
	return LeaseRevokeOptions{Rate: 500, Layout: keys.Default()}
}

// Check refuses, as fault.Usage, what names no leases or does so in two ways.
func (o LeaseRevokeOptions) Check() error {
	wrong := func(msg, hint string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: opLeaseRevoke, Msg: msg, Hint: hint}
	}
	switch {
	case len(o.IDs) > 0 && o.WithoutKeys:
		return wrong("both IDs and --without-keys are given", "give the one or the other: a lease that is named goes with its keys")
	case len(o.IDs) == 0 && !o.WithoutKeys:
		return wrong("which leases is not said", "give their IDs, as `kvd lease list` prints them, or --without-keys")
	case o.GrantedOver != 0 && !o.WithoutKeys:
		return wrong("--granted-over belongs to --without-keys", "")
	case o.GrantedOver < 0:
		return wrong("--granted-over can't be negative", "")
	case o.Rate < 1 || o.Rate > mostLeaseRate:
		return wrong(fmt.Sprintf("--rate %d: want 1 to %d, which is as fast as etcd itself revokes what has expired", o.Rate, mostLeaseRate), "")
	}
	for _, id := range o.IDs {
		if _, _, err := ParseLeaseID(id); err != nil {
			return err
		}
	}
	return nil
}

// LeaseRevokeDetail is what a plan would revoke, and after the run what became of it.
type LeaseRevokeDetail struct {
	Member       string          `json:"member"`                      // who was asked: the leader
	Total        int             `json:"leases_total"`                // when the plan was made
	Selected     int             `json:"leases_selected"`             // to be revoked
	SelectedKeys int64           `json:"keys_on_selected"`            // which go with them
	Resources    []LeaseResource `json:"resources"`                   // of these keys, by number
	Granted      []LeaseTerm     `json:"granted"`                     // how long those selected were granted for, by number
	Terms        int             `json:"granted_terms"`               // how many different times that are; the list has the first 20
	Kept         int             `json:"leases_kept_with_keys"`       // by --without-keys, when the plan was made
	KeptKeys     int64           `json:"keys_on_kept"`                // and what is on them
	Shorter      int             `json:"leases_kept_granted_shorter"` // by --granted-over
	Leases       []Lease         `json:"leases,omitempty"`            // those that were named, with the first of their keys

	Revoked int  `json:"leases_revoked"`
	GotKeys int  `json:"leases_kept_got_keys"`           // keys were put on them since the plan was made
	Ended   int  `json:"leases_ended_meanwhile"`         // by themselves, or by somebody else
	After   *int `json:"leases_total_after,omitempty"`   // once all was done
	Since   *int `json:"leases_granted_since,omitempty"` // of these
}

// leaseRevocation is one revocation being planned or run. It is used by one goroutine.
type leaseRevocation struct {
	client *cluster.Client
	opts   LeaseRevokeOptions
	sink   progress.Sink
	mc     *cluster.MemberClient // who is asked; nil: to be chosen anew
	asked  uint64                // its ID, when the plan was made

	all      map[clientv3.LeaseID]bool // those that there were when the plan was made
	selected []clientv3.LeaseID        // without keys, those that expire first first
	named    []namedLease
	revoked  map[clientv3.LeaseID]bool // by this run
	detail   *LeaseRevokeDetail
}

// PlanLeaseRevoke looks at leases and plans to revoke those that are named, with
// their keys, or all that have none. Nothing is sent that changes anything.
//
// The leader is asked for each lease, and again right before it is revoked: one that
// has got keys since is kept. Between that answer and the revocation a key can still
// come onto it, and goes with it: etcd's LeaseRevoke takes no condition.
//
// etcd takes revocations under NOSPACE. Errors: fault.Usage as of Check, fault.Refused
// where a key is on a named lease that is protected and that MeanIt does not name.
func PlanLeaseRevoke(ctx context.Context, client *cluster.Client, view cluster.View, o LeaseRevokeOptions, sink progress.Sink) (*plan.Plan, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	r := &leaseRevocation{client: client, opts: o, sink: sink, revoked: map[clientv3.LeaseID]bool{},
		detail: &LeaseRevokeDetail{Resources: []LeaseResource{}, Granted: []LeaseTerm{}}}
	if err := r.possible(view); err != nil {
		return nil, err
	}
	mc, err := leaseMember(client, view)
	if err != nil {
		return nil, err
	}
	if err := mc.Connect(ctx); err != nil {
		return nil, err
	}
	r.mc, r.asked, r.detail.Member = mc, mc.ID(), mc.Label()
	look := r.lookAtNamed
	if o.WithoutKeys {
		look = r.lookForEmpty
	}
	if err := look(ctx); err != nil {
		return nil, err
	}
	p := &plan.Plan{Op: opLeaseRevoke, Detail: r.detail, Notes: r.notes(view), Steps: r.steps()}
	for i := range p.Steps {
		p.Steps[i].Guard, p.Steps[i].AfterEarlier = r.guard, i > 0
	}
	return p, nil
}

// possible refuses where no revocation can be committed.
func (r *leaseRevocation) possible(view cluster.View) error {
	if view.HasAlarm(cluster.AlarmCorrupt) {
		return &fault.Error{Kind: fault.Refused, Cause: cluster.CauseCorrupt, Op: opLeaseRevoke,
			Msg:  "a CORRUPT alarm is raised, and etcd refuses to revoke leases until it is cleared",
			Hint: "take a snapshot of a healthy member, replace the corrupt one, then disarm"}
	}
	return canCommit(view, opLeaseRevoke)
}

func (r *leaseRevocation) guard(ctx context.Context) error {
	view, err := r.client.VotersView(ctx)
	if err != nil {
		return err
	}
	return r.possible(view)
}

// notes says what must be known before saying yes.
func (r *leaseRevocation) notes(view cluster.View) []string {
	d := r.detail
	var out []string
	if r.opts.WithoutKeys {
		out = append(out, r.emptyNotes()...)
	} else {
		out = append(out, r.namedNotes()...)
	}
	if d.Selected == 0 {
		return out
	}
	out = append(out, "a client that still means to use one of these is told \"requested lease not found\": kube-apiserver puts further Events on a lease for up to a minute after it was granted, and goes on with a new one then")
	back := fmt.Sprintf("what leases take of the file (about %s) becomes free pages as they are revoked, without a compaction; the file gets smaller by `kvd defrag`", binary(int64(d.Selected)*leaseBytes))
	if d.SelectedKeys > 0 {
		back = "what these leases take of the file becomes free pages as they are revoked, what their keys take only after `kvd compact`; the file gets smaller by `kvd defrag`"
	}
	if view.HasAlarm(cluster.AlarmNoSpace) {
		back += ". NOSPACE is raised: etcd takes revocations all the same, and refuses to grant leases; the alarm stays until `kvd alarm recover`"
	}
	return append(out, back)
}

func (r *leaseRevocation) emptyNotes() []string {
	d, o := r.detail, r.opts
	out := []string{fmt.Sprintf("%d of %s have no key, as %s says, and are to go; %d have keys (%s) and stay",
		d.Selected, counted(d.Total, "lease"), d.Member, d.Kept, counted(int(d.KeptKeys), "key"))}
	if o.GrantedOver > 0 {
		out[0] = fmt.Sprintf("%d of %s have no key, as %s says, were granted for more than %s, and are to go; %d have keys (%s) and stay, and so do %d that were granted for %s or less",
			d.Selected, counted(d.Total, "lease"), d.Member, o.GrantedOver, d.Kept, counted(int(d.KeptKeys), "key"), d.Shorter, o.GrantedOver)
	}
	if d.Selected == 0 {
		return out
	}
	twice := "each is asked for again right before it is revoked, and kept if a key is on it by then; a key that comes onto it between that answer and the revocation goes with it, which etcd's API has no condition against"
	if takes := time.Duration(d.Selected) * time.Second / time.Duration(o.Rate); takes >= 2*time.Second {
		twice += fmt.Sprintf(". At %d per second or less: %s at least", o.Rate, takes.Round(time.Second))
	}
	return append(out, termsNote(d.Granted, d.Terms), twice)
}

func (r *leaseRevocation) namedNotes() []string {
	d := r.detail
	if d.SelectedKeys == 0 {
		return nil
	}
	var kinds []string
	objects := false
	for _, k := range d.Resources {
		kinds = append(kinds, fmt.Sprintf("%s (%s)", k.Resource, counted(int(k.Keys), "key")))
		objects = objects || k.Resource != otherKeys
	}
	out := []string{fmt.Sprintf("revoking deletes what is on these leases: %s; of %s", counted(int(d.SelectedKeys), "key"), andMore(kinds[:min(namesTold, len(kinds))], int64(len(kinds))))}
	if objects {
		out = append(out, "Kubernetes' objects go without their finalizers, without admission and without grace: controllers see them gone")
	}
	return append(out, "no snapshot is taken: what is deleted can be had back only until the next compaction, or from a backup",
		"each lease is asked for again right before it is revoked, and kept if a key is on it that this plan has not counted; a key that comes onto it between that answer and the revocation goes with it, which etcd's API has no condition against")
}

// steps are one for all leases without keys, or one for each that is named.
func (r *leaseRevocation) steps() []plan.Step {
	if r.opts.WithoutKeys {
		if r.detail.Selected == 0 {
			return []plan.Step{{StepResult: plan.StepResult{Subject: "cluster", Action: "revoke leases", State: plan.Skipped, Reason: "no lease is without keys that was selected"}}}
		}
		return []plan.Step{{StepResult: plan.StepResult{Subject: "cluster", Action: fmt.Sprintf("revoke %s without keys", counted(r.detail.Selected, "lease"))}, Do: r.revokeEmpty}}
	}
	var out []plan.Step
	for i := range r.named {
		out = append(out, r.namedStep(&r.named[i], i > 0))
	}
	return out
}

// keyNames names the first of some keys: objects of Kubernetes by their resource,
// namespace and name.
func keyNames(some []string, l keys.Layout) string {
	var names []string
	for _, key := range some[:min(namesTold, len(some))] {
		if k, ok := l.Parse(key); ok {
			names = append(names, strings.TrimSpace(k.GroupResource()+" "+strings.TrimPrefix(k.Namespace+"/"+k.Name, "/")))
		} else {
			names = append(names, fmt.Sprintf("%q", key))
		}
	}
	return andMore(names, int64(len(some)))
}

// protectedOn counts what is protected among the keys of leases.
func protectedOn(leases []namedLease, l keys.Layout) map[string]int64 {
	out := map[string]int64{}
	p := newProtector(slices.Clone(l.Prefixes))
	for _, n := range leases {
		for _, key := range n.keys {
			for _, name := range p.of(key) {
				out[name]++
			}
		}
	}
	return out
}
