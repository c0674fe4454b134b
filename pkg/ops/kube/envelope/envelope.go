// Package envelope tells what a value is that the Kubernetes API server has
// stored, from what stands around the object and without decoding it: how it is
// written, its apiVersion and kind, and how it is encrypted.
//
// Where the forms come from: k8s.io/apimachinery v0.37.2,
// pkg/runtime/serializer/protobuf (protoEncodingPrefix), pkg/runtime/generated.proto
// (Unknown, TypeMeta) and pkg/runtime/serializer/cbor (selfDescribedCBOR); of
// encrypted values k8s.io/apiserver, pkg/server/options/encryptionconfig.
package envelope

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"
)

// Form is how a value is written.
type Form string

// The forms. Anything that is none of the others is Bytes.
const (
	Protobuf  Form = "protobuf"
	JSON      Form = "json" // any JSON object, of Kubernetes or not
	CBOR      Form = "cbor"
	Encrypted Form = "encrypted"
	Bytes     Form = "bytes"
)

// Head is what a value says of itself.
type Head struct {
	Form       Form        `json:"form"`
	APIVersion string      `json:"api_version,omitempty"`
	Kind       string      `json:"kind,omitempty"`
	Encryption *Encryption `json:"encryption,omitempty"`
	// Damaged is set where the form's mark is there and the rest does not fit it:
	// the value was cut short or overwritten.
	Damaged bool `json:"damaged,omitempty"`
}

// Encryption is how the API server has encrypted a value, by the names in its
// EncryptionConfiguration.
type Encryption struct {
	Provider string `json:"provider"` // aescbc, aesgcm, secretbox, kms
	Version  string `json:"version,omitempty"`
	Key      string `json:"key,omitempty"`    // of a kms, the name of the plugin
	KeyID    string `json:"key_id,omitempty"` // which of the plugin's keys, where a kms v2 says it
}

const (
	protobufMark  = "k8s\x00"
	cborMark      = "\xd9\xd9\xf7"
	encryptedMark = "k8s:enc:"
	longestPrefix = 300     // of what stands before an encrypted value
	jsonHead      = 1 << 10 // of a JSON object, in which apiVersion and kind come first
)

// Read returns what a value says of itself, and the object inside: a protocol
// buffer without its envelope, JSON and CBOR as they are, the ciphertext. The body
// is a part of the value. Any bytes will do.
func Read(value []byte) (Head, []byte) {
	if rest, ok := bytes.CutPrefix(value, []byte(encryptedMark)); ok {
		return readEncrypted(rest)
	}
	if rest, ok := bytes.CutPrefix(value, []byte(protobufMark)); ok {
		return readUnknown(rest)
	}
	switch {
	case bytes.HasPrefix(value, []byte(cborMark)):
		h := Head{Form: CBOR}
		h.readCBOR(value[len(cborMark):])
		return h, value
	case bytes.HasPrefix(value, []byte("{")):
		h := Head{Form: JSON}
		h.readJSON(value[:min(len(value), jsonHead)])
		return h, value
	}
	return Head{Form: Bytes}, value
}

// readUnknown takes a runtime.Unknown apart: 1 is its TypeMeta, 2 the object.
func readUnknown(b []byte) (Head, []byte) {
	h := Head{Form: Protobuf}
	var meta, body []byte
	h.Damaged = !eachBytes(b, func(num protowire.Number, v []byte) {
		switch num {
		case 1:
			meta = v
		case 2:
			body = v
		}
	})
	intact := eachBytes(meta, func(num protowire.Number, v []byte) {
		switch num {
		case 1:
			h.APIVersion = string(v)
		case 2:
			h.Kind = string(v)
		}
	})
	h.Damaged = h.Damaged || !intact || h.Kind == ""
	return h, body
}

// readEncrypted reads NAME:VERSION:KEY: before a ciphertext.
func readEncrypted(b []byte) (Head, []byte) {
	h := Head{Form: Encrypted, Encryption: &Encryption{}}
	body := b
	for _, field := range []*string{&h.Encryption.Provider, &h.Encryption.Version, &h.Encryption.Key} {
		i := bytes.IndexByte(body[:min(len(body), longestPrefix)], ':')
		if i < 0 {
			h.Damaged = true
			return h, body
		}
		*field, body = string(body[:i]), body[i+1:]
	}
	if h.Encryption.Provider == "kms" && h.Encryption.Version == "v2" {
		// EncryptedObject (k8s.io/kms, apis/v2/api.proto): 2 is the ID of the key.
		eachBytes(body, func(num protowire.Number, v []byte) {
			if num == 2 {
				h.Encryption.KeyID = string(v)
			}
		})
	}
	return h, body
}

// Prefix is what stands before the ciphertext, without its last colon:
// "k8s:enc:aescbc:v1:key1".
func (e *Encryption) Prefix() string {
	s := encryptedMark + e.Provider
	for _, part := range []string{e.Version, e.Key} {
		if part == "" {
			break
		}
		s += ":" + part
	}
	return s
}

// String says it in words: "aescbc, key1"; "kms v2, vault, key id 7".
func (e *Encryption) String() string {
	s := e.Provider
	if e.Version != "" && e.Version != "v1" {
		s += " " + e.Version
	}
	if e.Key != "" {
		s += ", " + e.Key
	}
	if e.KeyID != "" {
		s += ", key id " + e.KeyID
	}
	return s
}

// eachBytes calls fn for each field of a message that holds bytes, and reports
// whether all of it was a message.
func eachBytes(b []byte, fn func(protowire.Number, []byte)) bool {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		if typ == protowire.BytesType {
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return false
			}
			fn(num, v)
			b = b[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// readJSON reads names and strings from the front, until something else comes.
func (h *Head) readJSON(head []byte) {
	d := json.NewDecoder(bytes.NewReader(head))
	if _, err := d.Token(); err != nil {
		return
	}
	for range 2 {
		name, err1 := d.Token()
		value, err2 := d.Token()
		s, ok := value.(string)
		if err1 != nil || err2 != nil || !ok {
			return
		}
		switch name {
		case "apiVersion":
			h.APIVersion = s
		case "kind":
			h.Kind = s
		}
	}
}
