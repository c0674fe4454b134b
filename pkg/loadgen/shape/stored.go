package shape

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Values says what the bytes of values are. Their sizes are the same in each: what
// differs is how well they compress, and who can read them.
type Values string

// What values can be.
const (
	Plain     Values = "k8s"       // as Kubernetes stores them
	Encrypted Values = "encrypted" // as with encryption at rest
	Random    Values = "random"    // bytes of no meaning
)

// cipherMark is what an encrypted value begins with (apiserver's
// options/encryptionconfig/config.go). Behind it all is random to whoever has no
// key. A real one is longer than the plain one, by this and 28 bytes.
const cipherMark = "k8s:enc:aesgcm:v1:key1:"

// String, Set and Type make it a flag's value.
func (v *Values) String() string { return string(*v) }

// Type names the kind of flag value.
func (v *Values) Type() string { return "kind" }

// Set accepts one of them.
func (v *Values) Set(s string) error {
	switch is := Values(s); is {
	case Plain, Encrypted, Random:
		*v = is
		return nil
	}
	return fmt.Errorf("%q is no kind of values: want k8s, encrypted or random", s)
}

// Stored returns what is stored in place of an object's value, of the same length,
// and not the same bytes twice. What is no object, the revision under the key of
// compaction, stays what it is.
func (v Values) Stored(value []byte) []byte {
	if v != Encrypted && v != Random || !bytes.HasPrefix(value, []byte(envelope)) {
		return value
	}
	out := make([]byte, len(value))
	at := 0
	if v == Encrypted {
		at = copy(out, cipherMark)
	}
	var seed [32]byte
	for i := 0; i < len(seed); i += 8 {
		binary.LittleEndian.PutUint64(seed[i:], rand.Uint64()) //nolint:gosec // a load is no secret
	}
	_, _ = rand.NewChaCha8(seed).Read(out[at:]) // never fails
	return out
}

// As returns the write with its values as they are to be stored.
func (t Txn) As(v Values) Txn {
	if v == "" || v == Plain {
		return t
	}
	then := make([]clientv3.Op, len(t.Then))
	copy(then, t.Then)
	for i := range then {
		if then[i].IsPut() {
			then[i].WithValueBytes(v.Stored(then[i].ValueBytes()))
		}
	}
	t.Then = then
	return t
}
