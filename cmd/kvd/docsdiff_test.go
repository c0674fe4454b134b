package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/servertest"
)

// changesForDocs writes a small shop, saves before.db, and then does what the guide
// finds out.
func changesForDocs(ctx context.Context, t *testing.T, c *servertest.Cluster, dir string) []string {
	t.Helper()
	cli := c.Client(t, c.Endpoint(0)) // which has applied what it has answered, and so has its snapshot
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(resource, namespace, name, kind, rest string, o ...clientv3.OpOption) {
		t.Helper()
		value := fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":%q,"namespace":%q}%s}`, kind, name, namespace, rest)
		must(cli.Put(ctx, "/registry/"+resource+"/"+namespace+"/"+name, value, o...))
	}
	web := func(replicas int, image, ready string) {
		t.Helper()
		put("deployments", "shop", "web", "Deployment", fmt.Sprintf(`,"spec":{"replicas":%d,"template":{"spec":{"containers":[{"name":"app","image":%q}]}}},"status":{"ready":%q}`, replicas, image, ready))
	}
	lease := func() clientv3.OpOption {
		t.Helper()
		l, err := cli.Grant(ctx, 3600)
		must(l, err)
		return clientv3.WithLease(l.ID)
	}
	web(3, "shop:1.4", "3/3")
	put("configmaps", "shop", "settings", "ConfigMap", `,"data":{"currency":"EUR"}`)
	put("configmaps", "shop", "flags", "ConfigMap", `,"data":{"sale":"off"}`)
	put("secrets", "shop", "db", "Secret", `,"data":{"password":"aHVudGVyMg=="}`)
	put("services/specs", "shop", "web", "Service", `,"spec":{"clusterIP":"10.96.0.7"}`)
	put("events", "shop", "web.17a", "Event", `,"count":1`, lease())
	for i := range 3 {
		put("configmaps", "trial", fmt.Sprintf("c%d", i), "ConfigMap", "")
	}
	in, err := cli.Snapshot(ctx)
	must(in, err)
	out, err := os.Create(filepath.Join(dir, "before.db"))
	must(out, err)
	must(io.Copy(out, in))
	must(nil, out.Close())
	must(nil, in.Close())

	web(3, "shop:1.5", "3/3")
	web(3, "shop:1.5", "0/3")
	put("configmaps", "shop", "flags", "ConfigMap", `,"data":{"sale":"on"}`)
	put("configmaps", "shop", "flags", "ConfigMap", `,"data":{"sale":"off"}`)
	put("secrets", "shop", "db", "Secret", `,"data":{"password":"Y29ycmVjdA=="}`)
	must(cli.Delete(ctx, "/registry/services/specs/shop/web"))
	put("services/specs", "shop", "web", "Service", `,"spec":{"clusterIP":"10.96.0.9"}`)
	put("events", "shop", "web.17a", "Event", `,"count":1`, lease())
	put("pods", "shop", "debug", "Pod", `,"spec":{"nodeName":"n1"}`)
	must(cli.Delete(ctx, "/registry/pods/shop/debug"))
	must(cli.Delete(ctx, "/registry/configmaps/trial/", clientv3.WithPrefix()))
	put("configmaps", "shop", "banner", "ConfigMap", `,"data":{"text":"hello"}`)
	return nil
}
