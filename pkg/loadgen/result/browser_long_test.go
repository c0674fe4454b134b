//go:build long

package result

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// browser finds a Chromium, which some systems call otherwise.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium here")
	return ""
}

// What a browser makes of the page has the lines, points and maxima of the JSON,
// also of a long run with events and texts that look like markup.
func TestPageInABrowser(t *testing.T) {
	chromium := browser(t)
	r := sample(MaxRows, 20, time.Millisecond)
	r.Events = []Event{{At: 600, What: "leader_change", Text: `"m2" <b>leads</b> & rules`}}
	r.Rows[1001].Ops[0].Response.Record(7 * time.Second)
	rep := NewReport(r, nil, true)
	path := filepath.Join(t.TempDir(), "page.html")
	var b bytes.Buffer
	if err := WritePage(&b, rep); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 2<<20 {
		t.Errorf("the page has %d bytes, more than 2 MiB", b.Len())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+path)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	dom := string(out)

	data := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(dom)
	var inPage []Report
	if data == nil || json.Unmarshal([]byte(data[1]), &inPage) != nil || len(inPage) != 1 {
		t.Fatal("the page's data is not there")
	}
	lines := regexp.MustCompile(`<polyline data-line="([^"]*)" data-points="([^"]*)" data-max="([^"]*)"[^>]* points="([^"]*)"`).FindAllStringSubmatch(dom, -1)
	n, points := 0, 0
	for k, c := range rep.Charts {
		if len(inPage[0].Charts) != len(rep.Charts) || len(inPage[0].Charts[k].Lines) != len(c.Lines) {
			t.Fatalf("chart %q: the data in the page has other lines", c.Title)
		}
		for i, l := range c.Lines {
			if n == len(lines) {
				t.Fatalf("only %d lines are drawn", n)
			}
			drawn := lines[n]
			n++
			highest, _ := strconv.ParseFloat(html.UnescapeString(drawn[3]), 64)
			count := len(strings.Fields(drawn[4]))
			points += count
			if same := inPage[0].Charts[k].Lines[i]; count != len(l.Points) || len(same.Points) != len(l.Points) || highest != l.Max || same.Max != l.Max || drawn[1] != l.Name {
				t.Errorf("%s, %s: %d points and a maximum of %v are drawn, %d and %v are in the JSON", c.Title, l.Name, count, highest, len(l.Points), l.Max)
			}
		}
	}
	if n != len(lines) {
		t.Errorf("%d lines are drawn, %d are in the JSON", len(lines), n)
	}
	if got := len(regexp.MustCompile(`<h3>generator: [^<]+</h3>`).FindAllString(dom, -1)); got != 3 {
		t.Errorf("%d charts of the generator are drawn, want 3", got)
	}
	if want := html.EscapeString(`leader change "m2" <b>leads</b> & rules`); !strings.Contains(dom, want) && !strings.Contains(dom, fmt.Sprintf("leader change %q &lt;b&gt;", "m2")) {
		t.Error("the event is not among the marks as text")
	}
	t.Logf("%d charts, %d lines, %d points, %d bytes", len(rep.Charts), n, points, b.Len())
}
