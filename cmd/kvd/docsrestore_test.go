package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.yaml.in/yaml/v3"

	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/servertest"
)

const backupPage = "runbooks/backup.md"

// backupForDocs puts the page's own script into the PATH, under the name that the
// page gives it.
func backupForDocs(ctx context.Context, t *testing.T, c *servertest.Cluster, _ string) []string {
	t.Helper()
	kubernetesForDocs(ctx, t, c.Client(t))
	bin := t.TempDir()
	writeProgram(t, filepath.Join(bin, "kvd-backup"), docBlock(t, backupPage, "sh", "#!/bin/sh"))
	return []string{inPath(bin)}
}

// lostForDocs saves two snapshots into the session's folder, kills all members, and
// removes the data of two.
func lostForDocs(ctx context.Context, t *testing.T, c *servertest.Cluster, dir string) []string {
	t.Helper()
	kubernetesForDocs(ctx, t, c.Client(t))
	for _, name := range []string{"yesterday.db", "etcd.db"} {
		save := exec.CommandContext(ctx, "kvd", "snapshot", "save", name, "--endpoints="+strings.Join(c.Endpoints(), ","))
		save.Dir, save.Env = dir, withoutClusters(os.Environ())
		if out, err := save.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if _, err := c.Client(t).Put(ctx, lateKey, name); err != nil {
			t.Fatal(err)
		}
	}
	env := hostsForDocs(t, c)
	for i := 1; i < c.Len(); i++ { // new disks, empty
		if err := os.RemoveAll(c.DataDir(i)); err != nil {
			t.Fatal(err)
		}
		mkdir(t, c.DataDir(i))
	}
	t.Cleanup(func() { // before the hosts end
		if !t.Failed() {
			checkWalked(t, c)
		}
	})
	return env
}

// hostsForDocs kills all members, and makes each a host as kubeadm sets it up, which
// ssh and scp reach.
func hostsForDocs(t *testing.T, c *servertest.Cluster) []string {
	t.Helper()
	var initial, env []string
	for i := range c.Len() {
		c.Kill(i)
		initial = append(initial, c.Name(i)+"="+c.PeerURL(i))
		env = append(env, fmt.Sprintf("M%d=%s", i+1, c.PeerURL(i)))
	}
	for i := range c.Len() {
		makeHost(t, c, i, strings.Join(initial, ","))
	}
	bin := t.TempDir()
	writeProgram(t, filepath.Join(bin, "ssh"), strings.ReplaceAll(sshForDocs, "ROOT", c.Root()))
	writeProgram(t, filepath.Join(bin, "scp"), strings.ReplaceAll(scpForDocs, "ROOT", c.Root()))
	return append(env, inPath(bin))
}

// checkWalked sees that whoever followed the page has the snapshot's content, above
// every revision that there was.
func checkWalked(t *testing.T, c *servertest.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's has ended
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got, err := client.Get(ctx, lateKey)
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "yesterday.db" || got.Header.Revision < snapshot.AutoBump {
		t.Errorf("after the restore: %v, %v", got, err)
	}
}

// lateKey names, after each snapshot, the snapshot that does not have it.
const lateKey = "/registry/configmaps/default/late"

// sshForDocs does on a host's folder what it is told to do on the host, and then
// what the kubelet there would: run etcd if its manifest is there, else end it.
const sshForDocs = `#!/bin/sh
host=ROOT/$1; shift
command=$(printf '%s' "$*" | sed "s#/var/lib/etcd#$host/data#g; s#/etc/kubernetes#$host/kubernetes#g")
cd "$host/home" && sh -c "$command" || exit
if [ ! -e "$host/kubernetes/manifests/etcd.yaml" ]; then
    [ ! -e "$host/pid" ] || { kill -9 "$(cat "$host/pid")"; rm "$host/pid"; }
elif [ ! -e "$host/pid" ]; then
    kvd serve $(cat "$host/args") >>"$host/log" 2>&1 </dev/null &
    echo $! >"$host/pid"
fi
`

const scpForDocs = `#!/bin/sh
[ "$1" != -q ] || shift
for last; do :; done
host=${last%:}
while [ $# -gt 1 ]; do cp "$1" "ROOT/$host/home/"; shift; done
`

// makeHost makes the folders that ssh works in, and ends what it starts.
func makeHost(t *testing.T, c *servertest.Cluster, i int, initial string) {
	t.Helper()
	manifests := filepath.Join(c.Dir(i), "kubernetes", "manifests")
	mkdir(t, filepath.Join(c.Dir(i), "home"))
	mkdir(t, manifests)
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if err := os.WriteFile(filepath.Join(manifests, name+".yaml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := fmt.Sprintf("--name=%s --data-dir=%s --listen-client-urls=%s --advertise-client-urls=%s --listen-peer-urls=%s --initial-advertise-peer-urls=%s --initial-cluster=%s --unsafe-no-fsync",
		c.Name(i), c.DataDir(i), c.Endpoint(i), c.Endpoint(i), c.PeerURL(i), c.PeerURL(i), initial)
	if err := os.WriteFile(filepath.Join(c.Dir(i), "args"), []byte(args), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		raw, err := os.ReadFile(filepath.Join(c.Dir(i), "pid"))
		if err != nil {
			return // nothing was started
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			waitGone(t, pid)
		}
	})
}

// The command of the page's CronJob, its unit and its timer are what kvd and systemd
// take.
func TestBackupOnATimer(t *testing.T) {
	t.Parallel()
	var job struct{ Command []string }
	if err := yaml.Unmarshal([]byte(docBlock(t, backupPage, "yaml", "command:")), &job); err != nil {
		t.Fatal(err)
	}
	// A flag that is not there is an error also where help is asked for behind it.
	help := exec.Command(job.Command[0], append(job.Command[1:], "--help")...) //nolint:gosec // our own documents
	if out, err := help.CombinedOutput(); err != nil || !strings.Contains(string(out), "kvd snapshot save DEST") {
		t.Errorf("%v: %v\n%s", job.Command, err, out)
	}
	units := docBlock(t, backupPage, "ini", "# /etc/systemd")
	for _, want := range []string{"Type=oneshot", "ExecStart=/usr/local/sbin/kvd-backup", "OnCalendar=*:5,35", "WantedBy=timers.target"} {
		if !strings.Contains(units, "\n"+want+"\n") {
			t.Errorf("the units lack %s", want)
		}
	}
	for line := range strings.Lines(units) {
		name, ok := strings.CutPrefix(line, "Environment=")
		if name, _, _ = strings.Cut(name, "="); ok && !strings.Contains("KVD_ENDPOINTS KVD_CACERT KVD_CERT KVD_KEY", name) {
			t.Errorf("%s is read by nobody", name)
		}
	}
}

// docBlock returns the fenced block of a kind in a page that begins with a text.
func docBlock(t *testing.T, page, kind, begins string) string {
	t.Helper()
	_, rest, ok := strings.Cut(readDoc(t, "docs/"+page), "\n```"+kind+"\n"+begins)
	block, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatalf("%s has no block of %s that begins with %q", page, kind, begins)
	}
	return begins + block
}

func inPath(dir string) string {
	return "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// waitGone waits until a killed process, which is no child of this one, has ended: a
// dead one that nobody has reaped has no command line.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for range 500 {
		if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || len(raw) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process %d does not end", pid)
}
