// Package codec turns the values that the Kubernetes API server stores into the
// objects that the API shows: built-in kinds from protocol buffers with the types
// of k8s.io/api, custom resources, CustomResourceDefinitions and APIServices from
// JSON (or CBOR). What cannot be turned is named by its envelope. No bytes are an
// error, and none of them a panic.
package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"kvd/pkg/ops/kube/envelope"
)

// Codec decodes values. It may be used concurrently.
type Codec struct {
	scheme func() *runtime.Scheme // made by the first protocol buffer: whoever reads none does not wait for it
}

// New returns a Codec.
func New() *Codec { return &Codec{scheme: sync.OnceValue(newScheme)} }

// Object is what a value holds, as far as it can be told.
type Object struct {
	envelope.Head
	// Namespace and Name are what the object's own metadata says.
	Namespace, Name string
	// Tree is the object as the API's JSON, of map[string]any, []any, string,
	// json.Number, bool and nil. It is nil where there is none: an encrypted
	// value, bytes of somebody else. JSON of somebody else has a tree, too.
	Tree map[string]any
	// Partial says that Tree is the object's metadata alone, because its kind is
	// not one that the types of k8s.io/api have.
	Partial bool
	// Secret says that parts of the object must not be shown unless asked for.
	Secret bool
	// Problem says why a value that has the form of an object has no tree, or one
	// that is Partial.
	Problem string
}

// Decode says what a value is. resource is what the value's key says
// (keys.Key.GroupResource), or empty: that of Secrets makes a Secret of a value
// that does not tell what it is.
func (c *Codec) Decode(resource string, value []byte) Object {
	head, body := envelope.Read(value)
	o := Object{Head: head}
	var err error
	switch head.Form {
	case envelope.Protobuf:
		err = c.protobuf(&o, body)
	case envelope.JSON:
		o.Tree, err = tree(body)
		o.Damaged = err != nil && head.Kind != "" // it says that it is an object
	case envelope.CBOR:
		err = o.cbor(body)
	case envelope.Encrypted:
		o.Problem = "encrypted at rest (" + head.Encryption.String() + ")"
	}
	if err != nil {
		o.Problem = err.Error()
	}
	o.named()
	o.Secret = o.Kind == "Secret" || resource == "secrets" || holdsSecret(o.Tree)
	return o
}

// protobuf decodes an object of a known kind, and of any other its metadata.
func (c *Codec) protobuf(o *Object, body []byte) error {
	if o.Damaged {
		return errors.New("cut short or damaged")
	}
	gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	known, err := c.scheme().New(gvk)
	if err == nil {
		o.Tree, err = ofMessage(known, gvk, body)
		o.Damaged = err != nil
		return err
	}
	// Every object of Kubernetes has its metadata in the same place.
	meta := &metav1.PartialObjectMetadata{}
	if t, err := ofMessage(meta, gvk, body); err == nil && meta.Name != "" {
		o.Tree, o.Partial = t, true
	}
	return errors.New("kvd knows no such kind, or not in that version: only its metadata is told")
}

// ofMessage decodes a message into a typed object, and that into a tree.
func ofMessage(into runtime.Object, gvk schema.GroupVersionKind, body []byte) (map[string]any, error) {
	m, ok := into.(interface{ Unmarshal(data []byte) error })
	if !ok {
		return nil, fmt.Errorf("%s is never stored", gvk.Kind)
	}
	if absurdQuantity(body) {
		return nil, errors.New("damaged: a quantity with an absurd exponent")
	}
	if err := m.Unmarshal(body); err != nil {
		return nil, fmt.Errorf("cut short or damaged: %w", err)
	}
	into.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(into)
	if err != nil {
		return nil, fmt.Errorf("cut short or damaged: %w", err)
	}
	return tree(text)
}

// tree reads a JSON object. Numbers keep the text that they have.
func tree(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var t map[string]any
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not valid JSON: something stands behind the object")
	}
	return t, nil
}

// cbor decodes an object as the API server of a cluster with the feature
// CBORServingAndStorage writes custom resources.
func (o *Object) cbor(body []byte) error {
	var any map[string]any
	if err := direct.Unmarshal(body, &any); err != nil {
		o.Damaged = true
		return fmt.Errorf("not valid CBOR: %w", err)
	}
	text, err := json.Marshal(any)
	if err != nil {
		return fmt.Errorf("not to be written as JSON: %w", err)
	}
	o.Tree, err = tree(text)
	return err
}

// named takes from the tree what a head and a name say.
func (o *Object) named() {
	text := func(in map[string]any, field string) string {
		s, _ := in[field].(string)
		return s
	}
	meta, _ := o.Tree["metadata"].(map[string]any)
	o.Namespace, o.Name = text(meta, "namespace"), text(meta, "name")
	if v, k := text(o.Tree, "apiVersion"), text(o.Tree, "kind"); v != "" && k != "" {
		o.APIVersion, o.Kind = v, k
	}
}

// OfKubernetes reports that the value says that it is an object of Kubernetes.
func (o *Object) OfKubernetes() bool {
	return o.Form == envelope.Encrypted || o.Form == envelope.Protobuf || o.APIVersion != "" && o.Kind != ""
}

// What says in a few words what the value is: "v1 Pod"; "encrypted at rest
// (aescbc, key1)"; "bytes".
func (o *Object) What() string {
	switch {
	case o.Form == envelope.Encrypted:
		return o.Problem
	case o.Kind != "" && o.Damaged:
		return o.APIVersion + " " + o.Kind + ", " + o.Problem
	case o.Kind != "":
		return o.APIVersion + " " + o.Kind
	case o.Problem != "":
		return string(o.Form) + ", " + o.Problem
	}
	return string(o.Form)
}
