package shape

import (
	"bytes"
	"compress/flate"
	"testing"
	"time"
)

// Values of every kind have the same sizes and never the same bytes; what is no
// object stays what it is.
func TestValuesOfEveryKindHaveTheSameSize(t *testing.T) {
	packed := func(b []byte) int {
		var out bytes.Buffer
		w, _ := flate.NewWriter(&out, flate.BestCompression)
		_, _ = w.Write(b)
		_ = w.Close()
		return out.Len()
	}
	plain := []byte(Node(MaxImages).Value(ID{Born: time.Now()}, time.Now()))
	for _, kind := range []Values{Encrypted, Random} {
		one, two := kind.Stored(plain), kind.Stored(plain)
		if len(one) != len(plain) || bytes.Equal(one, two) || bytes.Equal(one, plain) {
			t.Errorf("%s: %d bytes of %d, or the same twice", kind, len(one), len(plain))
		}
		if n := packed(one); n < len(plain)*99/100 {
			t.Errorf("%s: compresses to %d of %d bytes", kind, n, len(plain))
		}
		if marked := bytes.HasPrefix(one, []byte(cipherMark)); marked != (kind == Encrypted) {
			t.Errorf("%s: marked as encrypted: %v", kind, marked)
		}
		if rev := []byte("1234"); !bytes.Equal(kind.Stored(rev), rev) {
			t.Errorf("%s: a revision was changed", kind)
		}
		small := []byte(envelope + "x")
		if got := kind.Stored(small); len(got) != len(small) {
			t.Errorf("%s: %d bytes of %d", kind, len(got), len(small))
		}
		was := Update("/k", string(plain), 5, 0)
		now := was.As(kind)
		if bytes.Equal(now.Then[0].ValueBytes(), plain) || !bytes.Equal(was.Then[0].ValueBytes(), plain) || string(now.Then[0].KeyBytes()) != "/k" || len(now.Else) != 1 {
			t.Errorf("%s: the write is another, or the one given was changed", kind)
		}
	}
	if n := packed(plain); n > len(plain)/2 {
		t.Errorf("a Node compresses to %d of %d bytes", n, len(plain))
	}
	if got := Plain.Stored(plain); !bytes.Equal(got, plain) {
		t.Error("plain values are changed")
	}
}
