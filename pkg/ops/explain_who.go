package ops

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"kvd/pkg/ops/cluster"
)

// identify finds out whether authentication is on, who the writer is to each
// member, and by what.
func (c *writeCollector) identify(ctx context.Context) error {
	cfg := c.client.Config()
	who := &c.f.Who
	switch {
	case c.o.Token != "":
		who.Name, who.From = c.o.AsUser, "token"
	case c.o.AsUser != "":
		who.Name, who.From = c.o.AsUser, "as-user"
	case cfg.User != "":
		who.Name, who.From = cfg.User, "password"
	case cfg.Cert != "":
		who.Name, who.From = commonName(cfg.Cert), "certificate"
	}
	cfg.User, cfg.Password = "", ""
	nobody, err := cluster.Connect(cfg)
	if err != nil {
		return err
	}
	defer nobody.Close() //nolint:errcheck // nothing was written
	c.authOn(ctx, nobody)
	if who.AuthOn == nil || !*who.AuthOn {
		return nil
	}
	if who.From == "as-user" {
		return nil
	}
	tried := 0
	for _, i := range c.judged {
		switch m := &c.f.Members[i]; {
		case c.o.Token != "" && m.Applied != nil && tokenIndex(c.o.Token) > *m.Applied:
			m.Credential = credentialFuture // a read with it would only wait
		case c.canTry(*m):
			m.Credential = c.credential(ctx, nobody, *m)
			tried++
		}
	}
	c.count("serializable read of the key, count only, as the writer", tried, false)
	for _, i := range c.judged {
		if who.From == "certificate" && c.f.Members[i].Credential == credentialNone {
			who.Name = "" // the servers do not take users from certificates
		}
	}
	return nil
}

// authOn asks members in turn, as nobody, until one tells: a member with
// authentication on says that the user's name is empty. The header keeps it from
// taking the name in a client certificate for the user's (AuthInfoFromTLS in
// server/v3/auth/store.go).
func (c *writeCollector) authOn(ctx context.Context, nobody *cluster.Client) {
	c.f.Who.AuthBy = "no member was there to be asked"
	// One that told its status first: one that did not may be busy.
	members := slices.Clone(c.f.Members)
	slices.SortStableFunc(members, func(a, b WriteMember) int { return -cmp.Compare(a.Source, b.Source) })
	for _, m := range members {
		if m.Source == "" {
			continue
		}
		err := c.read(metadata.AppendToOutgoingContext(ctx, "grpcgateway-accept", "*/*"), nobody, m.Endpoint)
		c.count("serializable read of the key, count only, as nobody", 1, false)
		switch {
		case err == nil:
			c.f.Who.AuthOn = new(false)
			return
		case errors.Is(rpctypes.Error(err), rpctypes.ErrUserEmpty):
			c.f.Who.AuthOn = new(true)
			return
		}
		c.f.Who.AuthBy = m.label() + ": " + err.Error()
	}
}

// read counts the key at one member, by its own data.
func (c *writeCollector) read(ctx context.Context, as *cluster.Client, endpoint string) error {
	mc, err := as.At(endpoint)
	if err != nil {
		return err
	}
	if err := mc.Connect(ctx); err != nil {
		return err
	}
	key := c.o.Key
	if key == "" {
		key = "\x00" // an empty key is refused before anybody asks who it is
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.Config().MemberTimeout)
	defer cancel()
	_, err = mc.Etcd().Get(ctx, key, clientv3.WithSerializable(), clientv3.WithCountOnly())
	return err
}

// canTry reports that reading as the writer may say something: a member that did
// not tell its status to a user with a password is one where logging in failed, and
// trying again is to wait for that again.
func (c *writeCollector) canTry(m WriteMember) bool {
	return m.Source == "status" || m.Source == "metrics" && c.f.Who.From != "password"
}

// credential reads as the writer. That the writer may not read the key is an
// answer too: the member knows who it is.
func (c *writeCollector) credential(ctx context.Context, nobody *cluster.Client, m WriteMember) string {
	as := c.client
	if c.o.Token != "" {
		as = nobody
		ctx = withToken(ctx, c.o.Token)
	}
	err := rpctypes.Error(c.read(ctx, as, m.Endpoint))
	switch {
	case err == nil, errors.Is(err, rpctypes.ErrPermissionDenied):
		return credentialGood
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return credentialNone
	case errors.Is(err, rpctypes.ErrInvalidAuthToken):
		return credentialInvalid
	case errors.Is(err, rpctypes.ErrAuthOldRevision):
		return credentialOld
	}
	return credentialUntried
}

// tokenIndex is the raft index at which a simple token was made, 0 where it is
// another kind of token. A member that has not applied that entry yet waits for
// it, as long as the client does (isValidSimpleToken in server/v3/auth/simple_token.go).
func tokenIndex(token string) uint64 {
	parts := strings.Split(token, ".")
	if len(parts) != 2 {
		return 0
	}
	index, err := strconv.ParseUint(parts[1], 10, 0)
	if err != nil {
		return 0
	}
	return index
}

// commonName is the name in a certificate file, which etcd takes for the user's
// with --client-cert-auth.
func commonName(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return ""
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ""
	}
	return cert.Subject.CommonName
}

// rights reads the writer's roles, where they would decide: each read is a raft
// proposal.
func (c *writeCollector) rights(ctx context.Context) {
	who := &c.f.Who
	if who.AuthOn == nil || !*who.AuthOn {
		return
	}
	switch {
	case who.Name != "":
	case who.From == "token":
		who.Why = "a token does not say whose it is: give --as-user beside it"
		return
	default:
		who.Why = "who the writer is to the servers is not known"
		return
	}
	if !slices.ContainsFunc(c.judged, func(i int) bool { return reachesPermission(JudgeWrite(c.f, c.f.Members[i])) }) {
		who.Why = "the roles of " + who.Name + " were not asked for, since the write stops before"
		return
	}
	rights, proposals, err := c.userRights(ctx, who.Name)
	c.count("AuthUserGet, AuthRoleGet", proposals, true)
	if err != nil {
		who.Why = "the roles of " + who.Name + " could not be read: " + err.Error()
		return
	}
	who.Rights = rights
}

// reachesPermission reports that nothing stops the write before its permission is
// looked at, and that what is known so far does not say what comes of that.
func reachesPermission(v WriteVerdict) bool {
	for _, s := range v.steps {
		switch {
		case s.Check == checkPermission:
			return s.State == StepUnknown
		case s.State == StepStops:
			return false
		}
	}
	return false
}

func (c *writeCollector) userRights(ctx context.Context, name string) (_ *UserRights, proposals int, err error) {
	q, err := c.client.Quorum(ctx)
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.Config().CommandTimeout)
	defer cancel()
	user, err := q.Etcd().UserGet(ctx, name)
	proposals++
	switch {
	case errors.Is(rpctypes.Error(err), rpctypes.ErrUserNotFound):
		return &UserRights{}, proposals, nil
	case err != nil:
		return nil, proposals, q.Explain(ctx, "read user "+name, err)
	}
	out := &UserRights{Exists: true, Roles: user.Roles}
	for _, role := range user.Roles {
		if role == "root" {
			out.Root = true
			return out, proposals, nil
		}
	}
	for _, role := range user.Roles {
		r, err := q.Etcd().RoleGet(ctx, role)
		proposals++
		if err != nil {
			return nil, proposals, q.Explain(ctx, fmt.Sprintf("read role %s of user %s", role, name), err)
		}
		for _, p := range r.Perm {
			if p.PermType == authpb.Permission_WRITE || p.PermType == authpb.Permission_READWRITE {
				out.Write = append(out.Write, KeyRange{From: string(p.Key), To: string(p.RangeEnd)})
			}
		}
	}
	return out, proposals, nil
}
