package local

import (
	"io"
	"os"
	"strings"
)

// tailBytes is how much of a log's end is looked at.
const tailBytes = 64 << 10

// tail returns the last n lines of a file, or fewer.
func tail(path string, n int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	raw, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// lastWords is the line of a log that best says why its process ended: kvd's
// own error, else etcd's last fatal, panic or error line, else the last line. Only
// lines of the last start count.
func lastWords(path string) string {
	lines := strings.Split(tail(path, 1000), "\n")
	best, rank := "", 0
	for _, line := range lines {
		r := 1
		switch {
		case strings.HasPrefix(line, startMark):
			best, rank = "", 0
			continue
		case strings.HasPrefix(line, "kvd: "):
			r = 4
		case strings.HasPrefix(line, "panic: "), strings.Contains(line, `"level":"fatal"`), strings.Contains(line, `"level":"panic"`):
			r = 3
		case strings.Contains(line, `"level":"error"`):
			r = 2
		}
		if r >= rank {
			best, rank = line, r
		}
	}
	return best
}

// startMark begins the line that launch writes before a start.
const startMark = "--- "

// lastHint is the hint of kvd's own error in the last start of a log.
func lastHint(path string) string {
	hint := ""
	for line := range strings.Lines(tail(path, 1000)) {
		if strings.HasPrefix(line, startMark) {
			hint = ""
		} else if said, ok := strings.CutPrefix(line, "hint: "); ok {
			hint = strings.TrimSpace(said)
		}
	}
	return hint
}
