package envelope_test

import (
	"reflect"
	"strings"
	"testing"

	"kvd/pkg/ops/kube/envelope"
)

// unknown is a runtime.Unknown as the API server writes it, made by hand.
const unknown = "k8s\x00" + "\x0a\x09" + "\x0a\x02v1" + "\x12\x03Pod" + "\x12\x05" + "\x0a\x03\x0a\x01w" + "\x1a\x00\x22\x00"

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		head        envelope.Head
		body        string
	}{
		{"protobuf", unknown, envelope.Head{Form: envelope.Protobuf, APIVersion: "v1", Kind: "Pod"}, "\x0a\x03\x0a\x01w"},
		{"protobuf cut short", unknown[:20], envelope.Head{Form: envelope.Protobuf, APIVersion: "v1", Kind: "Pod", Damaged: true}, ""},
		{"mark alone", "k8s\x00", envelope.Head{Form: envelope.Protobuf, Damaged: true}, ""},
		{"mark and noise", "k8s\x00\xff\xff\xff", envelope.Head{Form: envelope.Protobuf, Damaged: true}, ""},
		{"custom resource", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}}`,
			envelope.Head{Form: envelope.JSON, APIVersion: "example.com/v1", Kind: "Widget"}, "="},
		{"CRD", `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{}}`,
			envelope.Head{Form: envelope.JSON, APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}, "="},
		{"JSON of somebody else", `{"host":"db","kind":7}`, envelope.Head{Form: envelope.JSON}, "="},
		{"JSON cut short", `{"kind":"Wid`, envelope.Head{Form: envelope.JSON}, "="},
		{"CBOR", "\xd9\xd9\xf7\xa1", envelope.Head{Form: envelope.CBOR}, "="},
		{"CBOR, names behind a map", "\xd9\xd9\xf7\xa3\x44kind\x46Widget\x44spec\xa2\x41a\x83\x01\x20\xf6\x41b\xfb\x00\x00\x00\x00\x00\x00\x00\x00\x4aapiVersion\x46e.c/v1",
			envelope.Head{Form: envelope.CBOR, APIVersion: "e.c/v1", Kind: "Widget"}, "="},
		{"CBOR cut short", "\xd9\xd9\xf7\xa3\x44kind\x46Widget\x44spec\xa2\x41a\x9b\xff", envelope.Head{Form: envelope.CBOR, Kind: "Widget"}, "="},
		{"CBOR of somebody else", "\xd9\xd9\xf7\x83\x01\x02\x03", envelope.Head{Form: envelope.CBOR}, "="},
		{"a number", "1189", envelope.Head{Form: envelope.Bytes}, "="},
		{"nothing", "", envelope.Head{Form: envelope.Bytes}, ""},
		{"aescbc", "k8s:enc:aescbc:v1:key1:\x00\xff:", envelope.Head{Form: envelope.Encrypted,
			Encryption: &envelope.Encryption{Provider: "aescbc", Version: "v1", Key: "key1"}}, "\x00\xff:"},
		{"kms v2", "k8s:enc:kms:v2:vault:\x0a\x02xx\x12\x01\x37\x1a\x02yy", envelope.Head{Form: envelope.Encrypted,
			Encryption: &envelope.Encryption{Provider: "kms", Version: "v2", Key: "vault", KeyID: "7"}}, "\x0a\x02xx\x12\x01\x37\x1a\x02yy"},
		{"encrypted, cut short", "k8s:enc:aesgcm:v1", envelope.Head{Form: envelope.Encrypted, Damaged: true,
			Encryption: &envelope.Encryption{Provider: "aesgcm"}}, "v1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := tc.body
			if want == "=" {
				want = tc.value
			}
			head, body := envelope.Read([]byte(tc.value))
			if !reflect.DeepEqual(head, tc.head) || string(body) != want {
				t.Errorf("got %+v %q, want %+v %q", head, body, tc.head, want)
			}
		})
	}
}

func TestEncryptionInWords(t *testing.T) {
	for prefix, want := range map[string]string{
		"k8s:enc:aescbc:v1:key1": "aescbc, key1", "k8s:enc:kms:v1:cloud": "kms, cloud", "k8s:enc:kms:v2:vault": "kms v2, vault",
	} {
		head, _ := envelope.Read([]byte(prefix + ":\x00\x01"))
		if got := head.Encryption.String(); got != want || head.Encryption.Prefix() != prefix {
			t.Errorf("%s: %q, %q", prefix, got, head.Encryption.Prefix())
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{unknown, "k8s:enc:kms:v2:p:\x12\x01k", `{"kind":"X","apiVersion":"v1"}`, "\xd9\xd9\xf7\xa0", "\xd9\xd9\xf7\xa2\x44kind\x41W\x41s\x82\xa0\xc1\x1a\x00\x00\x00\x01", "plain"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		head, body := envelope.Read(value)
		if !strings.Contains(string(value), string(body)) {
			t.Fatalf("the body %q is no part of %q", body, value)
		}
		if (head.Encryption != nil) != (head.Form == envelope.Encrypted) {
			t.Fatalf("%q: %+v", value, head)
		}
		if head.Encryption != nil && !head.Damaged && !strings.HasPrefix(string(value), head.Encryption.Prefix()+":") {
			t.Fatalf("%q does not begin with %q", value, head.Encryption.Prefix())
		}
	})
}
