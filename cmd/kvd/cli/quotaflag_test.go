package cli

import "testing"

func TestByteSizeIsAWholeNumberThatFits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1": 1, "12B": 12, "4096": 4096, "1.5KiB": 1536, "0.1MB": 100_000, "2GB": 2_000_000_000,
		"9007199254740993": 9007199254740993, "9223372036854775807": 1<<63 - 1, "7EiB": 7 << 60} {
		var b byteSize
		if err := b.Set(text); err != nil || int64(b) != want {
			t.Errorf("%s: %d, %v; want %d", text, int64(b), err, want)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "1.5B", "8EiB", "9223372036854775808", "99999999999999999999", "100EiB", "nan", "inf", "1e3", "MiB"} {
		var b byteSize
		if err := b.Set(text); err == nil {
			t.Errorf("%q: taken for %d bytes", text, int64(b))
		}
	}
}
