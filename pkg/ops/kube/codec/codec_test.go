package codec_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"kvd/pkg/ops/kube/codec"
	"kvd/pkg/ops/kube/envelope"
	"kvd/pkg/ops/kube/keys"
)

// apiModule is where the module k8s.io/api is, with the objects that Kubernetes
// tests its own encodings with.
func apiModule(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func parse(t *testing.T, text []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// neverStored are the groups that newScheme leaves out.
func neverStored(group string) bool {
	first, _, _ := strings.Cut(group, ".")
	return strings.Contains(" admission apidiscovery authentication authorization imagepolicy ", " "+first+" ")
}

// TestEveryKind holds the decoded form of every built-in kind, with each of its
// fields set, against the JSON that Kubernetes itself makes of it: of this version
// and of those before it, which clusters have stored.
func TestEveryKind(t *testing.T) {
	c, dir := codec.New(), filepath.Join(apiModule(t), "testdata")
	count := map[string]int{}
	for _, version := range []string{"HEAD", "v1.34.0"} {
		files, err := filepath.Glob(filepath.Join(dir, version, "*.pb"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			// core.v1.Pod.pb, also core.v1.Pod.after_roundtrip.pb, which stands beside it
			if neverStored(filepath.Base(file)) || strings.Contains(file, ".after_roundtrip.") || strings.HasSuffix(file, "WatchEvent.pb") {
				continue
			}
			value, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(file, ".pb")
			text, err := os.ReadFile(name + ".after_roundtrip.json") // where this version reads less than that one wrote
			if err != nil {
				if text, err = os.ReadFile(name + ".json"); err != nil {
					t.Fatal(err)
				}
			}
			o, want := c.Decode("", value), parse(t, text)
			if o.Partial && version != "HEAD" {
				count["removed since"]++
				continue
			}
			if o.Problem != "" || !reflect.DeepEqual(o.Tree, want) {
				changes := codec.Diff(&codec.Object{Tree: want}, &o, codec.DiffOptions{})
				t.Errorf("%s/%s: %s %v", version, filepath.Base(file), o.What(), changes)
			}
			count[version]++
		}
	}
	t.Log(count)
	if count["HEAD"] < 120 || count["v1.34.0"] < 120 {
		t.Errorf("only %v kinds were compared", count)
	}
}

// TestScheme finds a package of k8s.io/api that this one does not know, and a group
// that keys would take for a custom resource's.
func TestScheme(t *testing.T) {
	source, err := os.ReadFile("scheme.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := apiModule(t)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "register.go"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`GroupName += "(.*)"`)
	for _, file := range files {
		rel, _ := filepath.Rel(dir, filepath.Dir(file))
		if neverStored(filepath.Dir(rel)) {
			continue
		}
		if !strings.Contains(string(source), `"k8s.io/api/`+rel+`"`) {
			t.Errorf("scheme.go does not know k8s.io/api/%s", rel)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if m := name.FindSubmatch(text); m == nil {
			t.Errorf("%s: no name of a group", rel)
		} else if _, group, ok := keys.Resource("things." + string(m[1])); group != "" || !ok && len(m[1]) > 0 {
			t.Errorf("keys take the group %s for a custom resource's", m[1])
		}
	}
	if len(files) < 50 {
		t.Errorf("only %d packages were looked at", len(files))
	}
}

// TestGolden decodes values as the API server encodes them.
func TestGolden(t *testing.T) {
	c := codec.New()
	files, err := filepath.Glob("testdata/k8s-golden/*.pb")
	if err != nil || len(files) < 20 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		value, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o := c.Decode("", value)
		kind, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".pb"), "-")
		if kind == "masterlease" {
			kind = "endpoints"
		}
		if o.Problem != "" || o.Tree == nil || !strings.EqualFold(o.Kind, kind) || o.Form != envelope.Protobuf {
			t.Errorf("%s: %s %s", file, o.What(), o.Problem)
		}
		if o.Secret != (kind == "secret") || o.Name == "" && kind != "endpoints" {
			t.Errorf("%s: secret %v, name %q", file, o.Secret, o.Name)
		}
	}
}

// wrap makes the envelope of an object by hand.
func wrap(apiVersion, kind string, body []byte) []byte {
	field := func(num byte, b []byte) []byte {
		if len(b) > 127 {
			return append([]byte{num<<3 | 2, byte(len(b)&0x7f | 0x80), byte(len(b) >> 7)}, b...)
		}
		return append([]byte{num<<3 | 2, byte(len(b))}, b...)
	}
	meta := append(field(1, []byte(apiVersion)), field(2, []byte(kind))...)
	out := append([]byte("k8s\x00"), field(1, meta)...)
	return append(append(out, field(2, body)...), 0x1a, 0, 0x22, 0)
}

func TestDecodeOthers(t *testing.T) {
	pod, err := os.ReadFile("testdata/k8s-golden/pod-simple-running.pb")
	if err != nil {
		t.Fatal(err)
	}
	_, body := envelope.Read(pod)
	type want struct {
		form             envelope.Form
		what             string
		namespace, name  string
		partial, damaged bool
		tree, secret     bool
	}
	for name, tc := range map[string]struct {
		resource string
		value    []byte
		want     want
	}{
		"a kind that nobody registered": {"routes", wrap("route.openshift.io/v1", "Route", body),
			want{envelope.Protobuf, "route.openshift.io/v1 Route", "load-0", "*", true, false, true, false}},
		"of a removed version": {"", wrap("policy/v1beta1", "PodSecurityPolicy", []byte("\x0a\x05\x0a\x03psp")),
			want{envelope.Protobuf, "policy/v1beta1 PodSecurityPolicy", "", "psp", true, false, true, false}},
		"unknown, and no object": {"", wrap("x/v1", "Thing", []byte("\xff\xff")),
			want{envelope.Protobuf, "x/v1 Thing", "", "", false, false, false, false}},
		"cut in the envelope": {"pods", pod[:len(pod)/2],
			want{envelope.Protobuf, "v1 Pod, cut short or damaged", "", "", false, true, false, false}},
		"cut in the object": {"pods", wrap("v1", "Pod", body[:len(body)-7]),
			want{envelope.Protobuf, "v1 Pod, cut short or damaged: …", "", "", false, true, false, false}},
		"custom resource": {"widgets.example.com", []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"a"},"spec":{"n":12345678901234567890}}`),
			want{envelope.JSON, "example.com/v1 Widget", "a", "w", false, false, true, false}},
		"built-in kind as JSON": {"configmaps", []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{}}`),
			want{envelope.JSON, "v1 ConfigMap", "", "c", false, false, true, false}},
		"kind at the end": {"", []byte(`{"metadata":{"name":"w"},"kind":"Widget","apiVersion":"example.com/v1"}`),
			want{envelope.JSON, "example.com/v1 Widget", "", "w", false, false, true, false}},
		"JSON cut short": {"", []byte(`{"kind":"Widget","apiVersion":"example.com/v1","meta`),
			want{envelope.JSON, "example.com/v1 Widget, not valid JSON: …", "", "", false, true, false, false}},
		"two JSON objects": {"", []byte(`{"a":1}{"b":2}`), want{envelope.JSON, "json, not valid JSON: something stands behind the object", "", "", false, false, false, false}},
		"CBOR": {"widgets.example.com", []byte("\xd9\xd9\xf7\xa3japiVersionfe.c/v1dkindfWidgethmetadata\xa1dnameaw"),
			want{envelope.CBOR, "e.c/v1 Widget", "", "w", false, false, true, false}},
		"CBOR cut short": {"", []byte("\xd9\xd9\xf7\xa3japi"), want{envelope.CBOR, "cbor, not valid CBOR: …", "", "", false, true, false, false}},
		"encrypted Secret": {"secrets", []byte("k8s:enc:aescbc:v1:key1:\x00\x01\x02"),
			want{envelope.Encrypted, "encrypted at rest (aescbc, key1)", "", "", false, false, false, true}},
		"encrypted by a plugin": {"configmaps", []byte("k8s:enc:kms:v2:vault:\x0a\x01x\x12\x01\x37"),
			want{envelope.Encrypted, "encrypted at rest (kms v2, vault, key id 7)", "", "", false, false, false, false}},
		"a number":                  {"", []byte("1189"), want{envelope.Bytes, "bytes", "", "", false, false, false, false}},
		"nothing":                   {"", nil, want{envelope.Bytes, "bytes", "", "", false, false, false, false}},
		"a Secret that is no value": {"secrets", []byte("hunter2"), want{envelope.Bytes, "bytes", "", "", false, false, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			o := codec.New().Decode(tc.resource, tc.value)
			got := want{o.Form, o.What(), o.Namespace, o.Name, o.Partial, o.Damaged, o.Tree != nil, o.Secret}
			if tc.want.name == "*" {
				got.namespace, got.name = tc.want.namespace, tc.want.name
				if o.Name == "" || o.Namespace == "" {
					t.Errorf("no name: %q %q", o.Namespace, o.Name)
				}
			}
			if begin, ok := strings.CutSuffix(tc.want.what, "…"); ok && strings.HasPrefix(got.what, begin) {
				got.what = tc.want.what
			}
			if got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// TestMasked looks for the content of a Secret wherever kvd could show it.
func TestMasked(t *testing.T) {
	value := []byte(`{"kind":"Secret","apiVersion":"v1","type":"Opaque","data":{"password":"aHVudGVyMg=="},"stringData":{"x":"hunter2"},
		"metadata":{"name":"s","labels":{"app":"db"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"password\":\"aHVudGVyMg==\"}"}}}`)
	c := codec.New()
	o := c.Decode("", value)
	text, err := json.Marshal(o.Masked())
	if err != nil || strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "aHVudGVyMg") {
		t.Errorf("%s %v", text, err)
	}
	for _, want := range []string{`"password":"(masked, 7 bytes)"`, `"app":"db"`, `"type":"Opaque"`, `"name":"s"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	other := c.Decode("", bytes.ReplaceAll(value, []byte("aHVudGVyMg=="), []byte("aHVudGVyMw==")))
	none := c.Decode("", []byte(`{"kind":"Secret","apiVersion":"v1"}`))
	for _, sides := range [][2]*codec.Object{{&o, &other}, {&none, &o}, {&o, &none}} {
		changes := codec.Diff(sides[0], sides[1], codec.DiffOptions{})
		text, err := json.Marshal(changes)
		if err != nil || len(changes) == 0 || strings.Contains(string(text), "aHVudGVy") || strings.Contains(string(text), "hunter") {
			t.Errorf("%s %v", text, err)
		}
	}
	shown := codec.Diff(&o, &other, codec.DiffOptions{ShowValues: true})
	if len(shown) != 2 || shown[0].Path.String() != "data.password" || shown[0].After != "aHVudGVyMw==" {
		t.Errorf("%+v", shown)
	}
}

// TestAbsurdQuantity: a few bytes must not cost a minute.
func TestAbsurdQuantity(t *testing.T) {
	field := func(n byte, b []byte) []byte { return append([]byte{n<<3 | 2, byte(len(b))}, b...) }
	for quantity, ok := range map[string]bool{
		"100": true, "1e3": true, "1500m": true, "1e-9": true, "1e999999999": true, "-1e-99999999": false, "+.5E-1000000": false,
	} {
		cpu := append(field(1, []byte("cpu")), field(2, field(1, []byte(quantity)))...)
		body := append(field(1, field(1, []byte("8e123456-99999"))), field(2, field(1, cpu))...)
		o := codec.New().Decode("", wrap("v1", "ResourceQuota", body))
		if (o.Tree != nil) != ok || o.Damaged == ok {
			t.Errorf("%s: %s, %v", quantity, o.What(), o.Tree)
		}
	}
}

// TestMaskedInLists looks for the content of Secrets that are stored within Lists.
func TestMaskedInLists(t *testing.T) {
	secret := `{"kind":"Secret","metadata":{"name":"s"},"data":{"k":"aHVzaGh1c2g="}}`
	for value, shown := range map[string]string{
		`{"kind":"List","apiVersion":"v1","items":[` + secret + `,{"kind":"ConfigMap","data":{"k":"open"}}]}`:       `"k":"open"`,
		`{"kind":"List","items":[` + secret + `]}`:                                                                  `"name":"s"`,
		`{"kind":"SecretList","apiVersion":"v1","items":[{"metadata":{"name":"s"},"data":{"k":"aHVzaGh1c2g="}}]}`:   `"name":"s"`,
		`{"kind":"List","apiVersion":"v1","items":[{"kind":"List","apiVersion":"v1","items":[` + secret + `]}]}`:    `"name":"s"`,
		`{"kind":"List","apiVersion":"v1","items":[` + secret + `,"text",null],"metadata":{"resourceVersion":"1"}}`: `"text"`,
	} {
		o := codec.New().Decode("", []byte(value))
		text, err := json.Marshal(o.Masked())
		if err != nil || !o.Secret || bytes.Contains(text, []byte("aHVzaGh1c2g")) || !bytes.Contains(text, []byte(shown)) || !bytes.Contains(text, []byte("(masked, 8 bytes)")) {
			t.Errorf("%s: secret %v, %s, %v", value, o.Secret, text, err)
		}
	}
	if o := codec.New().Decode("", []byte(`{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod"}]}`)); o.Secret {
		t.Error("a List without a Secret is masked")
	}
}

// What the API server's own encoder makes of a custom resource tells its kind without
// being decoded.
func TestKindOfCBOR(t *testing.T) {
	raw, err := direct.Marshal(map[string]any{"apiVersion": "e.c/v1", "kind": "Widget", "metadata": map[string]any{"name": "w", "labels": map[string]any{"a": "b"}},
		"spec": map[string]any{"n": int64(-70000), "f": 1.5, "list": []any{true, nil, strings.Repeat("x", 300)}}})
	if err != nil {
		t.Fatal(err)
	}
	head, _ := envelope.Read(append([]byte("\xd9\xd9\xf7"), raw...))
	if head.Form != envelope.CBOR || head.APIVersion != "e.c/v1" || head.Kind != "Widget" {
		t.Errorf("%+v of %q", head, raw)
	}
}

// An alpha version of an API server before 1.34 is Kubernetes' own, and gone from its types
// since: what is told does not deny the one.
func TestVersionThatIsGone(t *testing.T) {
	o := codec.New().Decode("ipaddresses", []byte("k8s\x00\x0a'\x0a\x1anetworking.k8s.io/v1alpha1\x12\x09IPAddress\x12\x0a\x0a\x08\x0a\x06ip-one\x1a\x00\x22\x00"))
	if !o.Partial || o.Name != "ip-one" || o.Damaged || !strings.Contains(o.Problem, "version") || strings.Contains(o.Problem, "not a kind of Kubernetes") {
		t.Errorf("%+v", o)
	}
}
