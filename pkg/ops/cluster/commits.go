package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
)

// quorumPatience is how long the question may take whether there is a quorum: round
// trips between members take a fraction of it.
const quorumPatience = 2 * time.Second

// seeQuorum finds out whether the quorum is lost where too few voters answer from
// here and a leader is named all the same. Voters may run and not be reached: their
// client port is closed to this host, or they advertise an address that leads nowhere,
// as etcd's default of http://localhost:2379 does from any other host. Or they are busy:
// who defragments answers no client, and votes. A linearizable
// read is answered only where a quorum confirms the leader (linearizableReadNotify in
// server/etcdserver/v3_server.go), and whether the user may read is asked after that.
func (c *Client) seeQuorum(ctx context.Context, v *View) {
	if !v.VotersKnown() || v.Leader == 0 || v.VotersAlive() >= v.Quorum() {
		return
	}
	for _, m := range v.Readers() {
		mc, err := c.At(m.Endpoint)
		if err != nil {
			continue
		}
		// A leader that has lost its quorum says so one election timeout later, and those
		// that do not answer take longer than that to be given up.
		if s, err := mc.Status(ctx); err != nil || s.Leader == 0 {
			return
		}
		_, err = ask(ctx, mc, "get", quorumPatience, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return mc.Etcd().Get(ctx, "\x00", clientv3.WithCountOnly())
		})
		if v.Commits = err == nil || fault.KindOf(err) == fault.Denied; v.Commits {
			v.Notes = append(v.Notes, fmt.Sprintf("%d of %d voters answer here, and yet the cluster answers a linearizable read, which takes %d of them: others run; %s",
				v.VotersAlive(), len(v.Voters()), v.Quorum(), unseen(*v)))
		}
		return // the others would wait for the same quorum
	}
}

// QuorumLost reports that it is known who votes, and that too few of them are known to be
// there for anything to be committed. A leader may still be named then: members notice one
// election timeout later.
func (v View) QuorumLost() bool {
	return v.VotersKnown() && !v.Commits && v.VotersAlive() < v.Quorum()
}

// VotersAlive counts the voters that are known to be there.
func (v View) VotersAlive() int {
	n := 0
	for _, m := range v.Voters() {
		if m.Alive() {
			n++
		}
	}
	return n
}

// unseen says of the voters that are not known to be there why they may run all the same.
func unseen(v View) string {
	var far, busy, out []string
	for _, m := range v.Voters() {
		switch {
		case m.Alive(), !m.Started():
		case IsBusy(m.Err):
			busy = append(busy, m.Label())
		default:
			far = append(far, m.Label())
		}
	}
	if len(far) > 0 {
		out = append(out, "not reached where they advertise to be: "+strings.Join(far, ", ")+"; give --endpoints that lead to them")
	}
	if len(busy) > 0 {
		out = append(out, "there, and answering nobody, as while a member defragments or starts: "+strings.Join(busy, ", ")+"; look again later")
	}
	return strings.Join(out, "; ")
}
