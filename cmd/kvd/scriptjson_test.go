package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdJSON is `json FILE PATH OP VALUE`: an assertion about a JSON document, or
// about the last one of JSON Lines. FILE may be stdout or stderr. PATH is names
// and indexes with dots (.members.0.quota_bytes), `len` at its end counts a list
// or an object. OP is == != < <= > >= ~ (a regular expression) or exists.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 && (len(args) != 3 || args[2] != "exists") {
		ts.Fatalf("usage: [!] json file path op value")
	}
	want := ""
	if len(args) == 4 {
		want = args[3]
	}
	text := ts.ReadFile(args[0])
	if args[0] == "stderr" { // warnings and progress come before the error
		lines := strings.Split(strings.TrimSpace(text), "\n")
		text = lines[len(lines)-1]
	}
	ok, got, err := jsonHolds(text, args[1], args[2], want)
	if err != nil {
		ts.Fatalf("json %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	if ok == neg {
		ts.Fatalf("json %s does not hold: it is %s", strings.Join(args, " "), got)
	}
}

// jsonHolds evaluates one assertion; got is what stands at the path.
func jsonHolds(text, path, op, want string) (ok bool, got string, err error) {
	doc, err := lastJSON(text)
	if err != nil {
		return false, "", err
	}
	value, found, err := jsonAt(doc, path)
	if err != nil {
		return false, "", err
	}
	if op == "exists" {
		return found, fmt.Sprint(found), nil
	}
	if !found {
		return false, "", fmt.Errorf("nothing at %s", path)
	}
	got = jsonText(value)
	switch op {
	case "==":
		return got == want, got, nil
	case "!=":
		return got != want, got, nil
	case "~":
		re, err := regexp.Compile(want)
		if err != nil {
			return false, got, err
		}
		return re.MatchString(got), got, nil
	}
	a, err1 := strconv.ParseFloat(got, 64)
	b, err2 := strconv.ParseFloat(want, 64)
	if err := errors.Join(err1, err2); err != nil {
		return false, got, err
	}
	switch op {
	case "<":
		return a < b, got, nil
	case "<=":
		return a <= b, got, nil
	case ">":
		return a > b, got, nil
	case ">=":
		return a >= b, got, nil
	}
	return false, got, fmt.Errorf("unknown operator %q", op)
}

// lastJSON reads a document, or the last one of a stream of them.
func lastJSON(text string) (any, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var last any
	for n := 0; ; n++ {
		var v any
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) && n > 0 {
			return last, nil
		}
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		last = v
	}
}

func jsonAt(v any, path string) (value any, found bool, err error) {
	for _, name := range strings.Split(strings.Trim(path, "."), ".") {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[name]
			switch {
			case ok:
				v = next
			case name == "len":
				v = json.Number(strconv.Itoa(len(at)))
			default:
				return nil, false, nil
			}
		case []any:
			if name == "len" {
				v = json.Number(strconv.Itoa(len(at)))
				continue
			}
			i, err := strconv.Atoi(name)
			if err != nil {
				return nil, false, fmt.Errorf("%q is no index of a list", name)
			}
			if i < 0 || i >= len(at) {
				return nil, false, nil
			}
			v = at[i]
		default:
			return nil, false, nil
		}
	}
	return v, true, nil
}

// jsonText is a value as one writes it in a script: strings without quotes.
func jsonText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// TestJSONAssertions is about the assertion itself: one that always holds would
// make every script worthless.
func TestJSONAssertions(t *testing.T) {
	const doc = `{"a":[{"n":16777216,"s":"x y"}],"f":0.25,"t":true,"len":"own"}`
	for _, c := range []struct {
		path, op, want string
		ok             bool
	}{
		{".a.0.n", "==", "16777216", true},
		{".a.0.n", "==", "16777217", false},
		{".a.0.n", "!=", "1", true},
		{".a.0.n", ">", "16777215", true},
		{".a.0.n", ">", "16777216", false},
		{".a.0.n", ">=", "16777216", true},
		{".a.0.n", "<", "16777216", false},
		{".a.0.n", "<=", "16777216", true},
		{".a.0.s", "~", "^x", true},
		{".a.0.s", "~", "^y", false},
		{".a.len", "==", "1", true},
		{".len", "==", "own", true},
		{".f", "<", "0.3", true},
		{".t", "==", "true", true},
		{".a.1", "exists", "", false},
		{".a.0", "exists", "", true},
	} {
		ok, got, err := jsonHolds(doc, c.path, c.op, c.want)
		if err != nil || ok != c.ok {
			t.Errorf("%s %s %s: %v (%s, %v), want %v", c.path, c.op, c.want, ok, got, err, c.ok)
		}
	}
	for _, bad := range [][3]string{{".b", "==", "1"}, {".a.0.s", "<", "1"}, {".a.x", "==", "1"}, {".f", "=~", "1"}} {
		if _, _, err := jsonHolds(doc, bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%v: want an error", bad)
		}
	}
	if ok, _, err := jsonHolds("{\"a\":1}\n{\"a\":2}\n", ".a", "==", "2"); err != nil || !ok {
		t.Errorf("of JSON Lines the last one counts: %v %v", ok, err)
	}
	if _, _, err := jsonHolds("", ".a", "==", "2"); err == nil {
		t.Error("no document at all: want an error")
	}
}
