package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdRegistry is `registry FILE [CHANGE…]`: writes the snapshot of a real API
// server's etcd, changed as told. A number below zero counts from the end.
//
//	cut=N      only the first N bytes
//	zero=N     zeros from byte N on
//	flip=N     one bit of byte N
//	append=S   S behind it
//	gzip=1     the compressed file itself
func cmdRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: registry FILE [cut=N] [zero=N] [flip=N] [append=S] [gzip=1]")
	}
	packed, err := os.ReadFile(packedRegistry)
	ts.Check(err)
	b, err := unpacked(packed)
	ts.Check(err)
	for _, arg := range args[1:] {
		what, value, _ := strings.Cut(arg, "=")
		if what == "append" {
			b = append(b, value...)
			continue
		}
		n, err := strconv.Atoi(value)
		ts.Check(err)
		if n < 0 {
			n += len(b)
		}
		switch what {
		case "cut":
			b = b[:n]
		case "zero":
			clear(b[n:])
		case "flip":
			b[n] ^= 4
		case "gzip":
			b = packed
		default:
			ts.Fatalf("registry: unknown change %q", what)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
}

// packedRegistry is the snapshot of a real API server's etcd.
const packedRegistry = "../../pkg/ops/dbfile/testdata/real-registry.db.gz"

func unpacked(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func realRegistry(t *testing.T) []byte {
	t.Helper()
	packed, err := os.ReadFile(packedRegistry)
	if err != nil {
		t.Fatal(err)
	}
	b, err := unpacked(packed)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
