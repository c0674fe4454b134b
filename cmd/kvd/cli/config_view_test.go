package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// runApp runs one command line with an environment of its own.
func runApp(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	app := &App{
		IO:     &IOStreams{In: strings.NewReader(""), Out: &out, Err: &errs},
		Getenv: func(k string) string { return env[k] }, Environ: func() []string { return nil },
		Global: defaultGlobalFlags(), Root: t.TempDir(),
	}
	code = app.Run(context.Background(), args)
	return code, out.String(), errs.String()
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigView(t *testing.T) {
	path := writeConfig(t, "current: lab\nclusters:\n  lab:\n    endpoints: [http://127.0.0.1:1]\n    user: root:topsecret\n  prod:\n    endpoints: [https://10.0.0.1:2379]\ndefaults:\n  output: json\n")
	code, out, errs := runApp(t, nil, "config", "view", "--config", path)
	if code != 0 {
		t.Fatalf("%d: %s", code, errs)
	}
	var v configView
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("defaults say JSON: %v\n%s", err, out)
	}
	if v.ConfigFile != path || v.Current != "lab" || strings.Join(v.Clusters, ",") != "lab,prod" || !strings.Contains(v.Source, "cluster lab") || len(v.Values) != 3 {
		t.Errorf("%+v", v)
	}
	if strings.Contains(out, "topsecret") {
		t.Errorf("the password is shown: %s", out)
	}
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		code int
		says string
	}{
		"flag over default":   {nil, []string{"config", "view", "--config", path, "-o", "table"}, 0, "source: "},
		"env over the file":   {map[string]string{"KVD_OUTPUT": "yaml"}, []string{"config", "view", "--config", path}, 0, "source: "},
		"another cluster":     {nil, []string{"config", "view", "--config", path, "--cluster-name", "prod"}, 0, "https://10.0.0.1:2379"},
		"repeated endpoints":  {nil, []string{"config", "view", "--endpoints", "a:1,b:2", "--endpoints", "c:3"}, 0, "a:1,b:2,c:3"},
		"no such cluster":     {nil, []string{"config", "view", "--config", path, "--cluster-name", "x", "-o", "table"}, 2, "it has lab, prod"},
		"etcdctl's -w":        {nil, []string{"config", "view", "-w", "json"}, 2, "-o"},
		"a bad default":       {map[string]string{"KVD_OUTPUT": "xml"}, []string{"config", "view"}, 2, "KVD_OUTPUT"},
		"user, no password":   {nil, []string{"status", "--endpoints", "http://127.0.0.1:1", "--user", "root"}, 2, "--password-file"},
		"a bad flag's origin": {nil, []string{"config", "view", "--dial-timeout", "-1s"}, 2, "--dial-timeout"},
		"broken file":         {nil, []string{"config", "view", "--config", writeConfig(t, "nonsense: 1\n")}, 2, "nonsense"},
		"version does not look at the file": {nil, []string{"version", "--config", writeConfig(t, "nonsense: 1\n")},
			0, "etcd"},
	} {
		code, out, errs := runApp(t, c.env, c.args...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit %d, want %d with %q\n%s%s", name, code, c.code, c.says, out, errs)
		}
	}
}

// The flags say nothing unless they are given, and then they are taken.
func TestClientFlagsDefaults(t *testing.T) {
	code, out, errs := runApp(t, nil, "config", "view", "-o", "json")
	var v configView
	if err := json.Unmarshal([]byte(out), &v); code != 0 || err != nil || v.Source != "default" || len(v.Values) != 1 {
		t.Errorf("%d %v %+v %s", code, err, v, errs)
	}
	for _, args := range [][]string{
		{"status", "--endpoints", "http://127.0.0.1:1"},
		{"status", "--endpoints", "http://127.0.0.1:1,http://127.0.0.1:2", "-o", "json"},
		{"alarm", "list", "--endpoints", "127.0.0.1:1"},
	} {
		code, out, errs := runApp(t, nil, args...)
		if code != 4 || out != "" {
			t.Errorf("%v: exit %d, stdout %q", args, code, out)
		}
		if !strings.Contains(errs, "connection refused") || strings.Contains(errs, "deadline") {
			t.Errorf("%v: %s", args, errs)
		}
	}
	_, err := cluster.Connect(cluster.Config{})
	if fault.KindOf(err) != fault.Usage {
		t.Error(err)
	}
}
