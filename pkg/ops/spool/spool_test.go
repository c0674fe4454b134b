package spool_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/spool"
)

func pack(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := spool.Pack(&out, spool.Zstd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func content(size int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, size)
	_, _ = r.Read(b[:size/2]) // half of it compresses
	return b
}

func write(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.db") // the name says nothing
	if err := os.WriteFile(path, b, 0o400); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRoundTrip(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 1 << 20, 5<<20 + 7} {
		want := content(size)
		packed := pack(t, want)
		path := write(t, packed)
		if c, err := spool.Compression(path); c != spool.Zstd || err != nil {
			t.Fatalf("%d: %q, %v", size, c, err)
		}
		dir := t.TempDir()
		f, err := spool.Open(context.Background(), path, spool.Options{Dir: dir}, progress.Discard)
		if err != nil {
			t.Fatalf("%d: %v", size, err)
		}
		got, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d: other content, %v", size, err)
		}
		if again, err := os.ReadFile(f.Path()); err != nil || !bytes.Equal(again, want) {
			t.Errorf("%d: by its name: %v", size, err)
		}
		sum := sha256.Sum256(packed)
		if f.SHA256 != hex.EncodeToString(sum[:]) || f.SizeBytes != int64(len(packed)) {
			t.Errorf("%d: %+v", size, f.Packed)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%d: %v, %v", size, left, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsNotCompressed(t *testing.T) {
	for _, b := range []string{"", "a", "(\xb5/", "plain text"} {
		if c, err := spool.Compression(write(t, []byte(b))); c != spool.None || err != nil {
			t.Errorf("%q: %q, %v", b, c, err)
		}
	}
	if c, err := spool.Compression(t.TempDir()); c != spool.None || err != nil {
		t.Errorf("a folder: %q, %v", c, err)
	}
	if _, err := spool.Compression(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no file, no error")
	}
}

// Cut at any place, with a byte changed, or with something behind it: never the
// wrong content without an error.
func TestDamage(t *testing.T) {
	want := content(300 << 10)
	packed := pack(t, want)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 120 {
		b, wantCause := bytes.Clone(packed), ""
		switch at := 4 + r.IntN(len(b)-4); i % 3 {
		case 0:
			b, wantCause = b[:at], spool.CauseTruncated
		case 1:
			b[at] ^= 1 << r.IntN(8)
		case 2:
			b = append(b, b[:at]...)
		}
		f, err := spool.Open(context.Background(), write(t, b), spool.Options{Dir: t.TempDir()}, progress.Discard)
		if err == nil {
			got, rerr := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
			if i%3 != 1 || rerr != nil || !bytes.Equal(got, want) { // a flip may hit a bit that says nothing
				t.Errorf("%d: %d bytes came out, %v", i, f.Size(), rerr)
			}
			_ = f.Close()
			continue
		}
		if fault.KindOf(err) != fault.Damage || (wantCause != "" && fault.CauseOf(err) != wantCause) {
			t.Errorf("%d: %s, %v", i, fault.CauseOf(err), err)
		}
	}
}

// What is whole with something behind it is told from what is cut off.
func TestExtraBytes(t *testing.T) {
	packed := pack(t, content(300<<10))
	twice := append(bytes.Clone(packed), packed...)
	skippable := append(bytes.Clone(packed), 0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c')
	for name, c := range map[string]struct {
		begin []byte
		more  string
		cause string
	}{
		"a line":                  {packed, "hi\n", spool.CauseExtra},
		"one byte":                {packed, "\x28", spool.CauseExtra},
		"text":                    {packed, strings.Repeat("text ", 1000), spool.CauseExtra},
		"zeros":                   {packed, strings.Repeat("\x00", 4096), spool.CauseExtra},
		"behind two frames":       {twice, "hi\n", spool.CauseExtra},
		"behind a skippable one":  {skippable, "hi\n", spool.CauseExtra},
		"half a frame":            {packed, string(packed[:1000]), spool.CauseTruncated},
		"the beginning of one":    {packed, string(packed[:5]), spool.CauseTruncated},
		"a frame that is cut off": {packed[:len(packed)-1], "", spool.CauseTruncated},
	} {
		_, err := spool.Open(context.Background(), write(t, append(bytes.Clone(c.begin), c.more...)), spool.Options{Dir: t.TempDir()}, progress.Discard)
		if fault.CauseOf(err) != c.cause {
			t.Errorf("%s: %v (%s), want %s", name, err, fault.CauseOf(err), c.cause)
		}
		if want := fmt.Sprintf("head -c %d ", len(c.begin)); c.cause == spool.CauseExtra && !strings.Contains(fault.HintOf(err), want) {
			t.Errorf("%s: hint %q, want %q in it", name, fault.HintOf(err), want)
		}
	}
}

// A frame that is to be skipped may stand before the first one with a content, as in
// all that pzstd makes.
func TestASkippableFrameBeforeTheContent(t *testing.T) {
	want := content(300 << 10)
	skippable := "\x50\x2a\x4d\x18\x04\x00\x00\x00size"
	path := write(t, append([]byte(skippable), pack(t, want)...))
	if c, err := spool.Compression(path); c != spool.Zstd || err != nil {
		t.Fatalf("%q, %v", c, err)
	}
	f, err := spool.Open(context.Background(), path, spool.Options{Dir: t.TempDir()}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	if got, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size())); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other content, %v", err)
	}
	for _, b := range []string{skippable, skippable[:10], strings.Repeat(skippable, 100), skippable + "text", "\x50\x2a\x4d\x18\xff\xff\xff\xff"} {
		if c, err := spool.Compression(write(t, []byte(b))); c != spool.None || err != nil {
			t.Errorf("%q: %q, %v", b, c, err)
		}
	}
}

// A window that is too large is no damage: `zstd --long=28` makes such files of a
// stream, and `zstd -d` refuses them as well until it is told.
func TestALargeWindowIsNoDamage(t *testing.T) {
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithWindowSize(256<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := z.Write(content(100 << 10)); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil { // else the length of the content is the window
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = spool.Open(context.Background(), write(t, packed.Bytes()), spool.Options{Dir: t.TempDir()}, progress.Discard)
	if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != spool.CauseWindow || !strings.Contains(fault.HintOf(err), "zstd -d --long=31") {
		t.Errorf("%v (%s), hint %q", err, fault.CauseOf(err), fault.HintOf(err))
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := spool.Open(ctx, write(t, pack(t, content(1<<20))), spool.Options{}, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := spool.Open(context.Background(), write(t, pack(t, nil)), spool.Options{Dir: "/nonexistent"}, progress.Discard); fault.KindOf(err) != fault.Usage {
		t.Error(err)
	}
}
