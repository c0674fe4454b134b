package codec_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kvd/pkg/ops/kube/codec"
)

func object(t *testing.T, text string) *codec.Object {
	t.Helper()
	return &codec.Object{Tree: parse(t, []byte(text))}
}

func TestDiff(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
		ignore        []string
		want          []string
	}{
		"nothing": {`{"a":1}`, `{"a":1}`, nil, nil},
		"fields": {`{"a":1,"b":{"c":"x"},"d":true}`, `{"a":2,"b":{"c":"x"},"e":null}`, nil,
			[]string{"changed a 1 2", "removed d true <nil>", "added e <nil> <nil>"}},
		"another kind of value": {`{"a":{"b":1}}`, `{"a":[1]}`, nil, []string{"changed a map[b:1] [1]"}},
		"containers by name": {
			`{"spec":{"containers":[{"name":"web","image":"web:1"},{"name":"log","image":"log:1"}]}}`,
			`{"spec":{"containers":[{"name":"web","image":"web:2"},{"name":"new","image":"n"},{"name":"log","image":"log:1"}]}}`, nil,
			[]string{"changed spec.containers[name=web].image web:1 web:2", "added spec.containers[name=new] <nil> map[image:n name:new]"}},
		"conditions by type": {
			`{"c":[{"type":"Ready","status":"False"},{"type":"Old","status":"True"}]}`,
			`{"c":[{"type":"Ready","status":"True"}]}`, nil,
			[]string{"changed c[type=Ready].status False True", "removed c[type=Old] map[status:True type:Old] <nil>"}},
		"ports by number": {`{"p":[{"containerPort":80,"x":1}]}`, `{"p":[{"containerPort":80,"x":2}]}`, nil,
			[]string{"changed p[containerPort=80].x 1 2"}},
		"changed places":           {`{"l":[{"name":"a"},{"name":"b"}]}`, `{"l":[{"name":"b"},{"name":"a"}]}`, nil, []string{"reordered l [a b] [b a]"}},
		"a list of texts":          {`{"f":["a","b","c","d"]}`, `{"f":["a","c","d","e"]}`, nil, []string{"removed f[1] b <nil>", "added f[3] <nil> e"}},
		"an element in the middle": {`{"e":[{"z":1},{"z":2},{"z":3}]}`, `{"e":[{"z":1},{"z":5},{"z":3}]}`, nil, []string{"changed e[1].z 2 5"}},
		"a label": {`{"metadata":{"labels":{}}}`, `{"metadata":{"labels":{"app.kubernetes.io/name":"x"}}}`, nil,
			[]string{`added metadata.labels["app.kubernetes.io/name"] <nil> x`}},
		"ignored": {`{"metadata":{"managedFields":[{"manager":"a"}],"name":"n"},"status":{"x":1},"spec":{"containers":[{"name":"a","image":"1"}]}}`,
			`{"metadata":{"managedFields":[],"name":"m"},"status":{"x":2},"spec":{"containers":[{"name":"a","image":"2"}]}}`,
			[]string{"managedFields", "status", "spec.containers.image"}, []string{"changed metadata.name n m"}},
		"one label ignored": {`{"metadata":{"labels":{"a.b/c":"1","d":"1"}}}`, `{"metadata":{"labels":{"a.b/c":"2","d":"2"}}}`,
			[]string{`metadata.labels["a.b/c"]`}, []string{"changed metadata.labels.d 1 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			ignore, err := codec.ParseIgnore(tc.ignore...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range codec.Diff(object(t, tc.before), object(t, tc.after), codec.DiffOptions{Ignore: ignore}) {
				got = append(got, fmt.Sprintf("%s %s %v %v", c.Op, c.Path, c.Before, c.After))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tc.want, "\n  "))
			}
		})
	}
}

func TestParseIgnoreRefuses(t *testing.T) {
	for _, s := range []string{"", ".", "a..b", "a.", `a[b]`, `a["b"`, `["]`} {
		if ig, err := codec.ParseIgnore(s); err == nil {
			t.Errorf("%q is taken for %v", s, ig)
		}
	}
}

// TestDiffOfAnyTrees: there is a difference if and only if the trees differ, each
// names what stands at its place on either side, and what changed is not equal.
func TestDiffOfAnyTrees(t *testing.T) {
	differed := 0
	rapid.Check(t, func(t *rapid.T) {
		a := genTree(t, "a", 3).(map[string]any)
		b, _ := change(t, a, 3).(map[string]any)
		changes := codec.Diff(&codec.Object{Tree: a}, &codec.Object{Tree: b}, codec.DiffOptions{})
		if (len(changes) == 0) != reflect.DeepEqual(a, b) {
			t.Fatalf("%d changes between\n%v\n%v", len(changes), a, b)
		}
		if len(changes) > 0 {
			differed++
		}
		for _, c := range changes {
			if c.Op == codec.Reordered {
				continue
			}
			if c.Op == codec.Changed && reflect.DeepEqual(c.Before, c.After) {
				t.Fatalf("%s changed from %v to the same", c.Path, c.Before)
			}
			// The number of an element without a name is that of the side it is on.
			if before, ok := at(a, c.Path); c.Op != codec.Added && !unnamed(c.Path) && (!ok || !reflect.DeepEqual(before, c.Before)) {
				t.Fatalf("%s %s: was %v, but there is %v in\n%v", c.Op, c.Path, c.Before, before, a)
			}
			if after, ok := at(b, c.Path); c.Op != codec.Removed && (!ok || !reflect.DeepEqual(after, c.After)) {
				t.Fatalf("%s %s: is %v, but there is %v in\n%v", c.Op, c.Path, c.After, after, b)
			}
		}
	})
	t.Logf("%d pairs differed", differed)
	if differed < 10 {
		t.Errorf("only %d pairs differed", differed)
	}
}

// unnamed reports that a path goes through an element that has no name.
func unnamed(p codec.Path) bool {
	return slices.ContainsFunc(p, func(s codec.Step) bool { return s.Key == "" && s.Field == "" })
}

// at finds what stands at a path.
func at(tree any, p codec.Path) (any, bool) {
	for _, s := range p {
		switch v := tree.(type) {
		case map[string]any:
			inner, ok := v[s.Field]
			if !ok {
				return nil, false
			}
			tree = inner
		case []any:
			i := s.Index
			if s.Key != "" {
				i = slices.IndexFunc(v, func(e any) bool { return fmt.Sprint(e.(map[string]any)[s.Key]) == s.Value })
			}
			if i < 0 || i >= len(v) {
				return nil, false
			}
			tree = v[i]
		default:
			return nil, false
		}
	}
	return tree, true
}

func genTree(t *rapid.T, label string, depth int) any {
	fields := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "name", "type", "x.y/z"}), 0, 4, rapid.ID[string]).Draw(t, label)
	out := map[string]any{}
	for _, f := range fields {
		out[f] = genValue(t, label+f, depth-1)
	}
	return out
}

func genValue(t *rapid.T, label string, depth int) any {
	kind := rapid.IntRange(0, 5).Draw(t, label)
	if depth <= 0 {
		kind %= 3
	}
	switch kind {
	case 0:
		return rapid.SampledFrom([]string{"u", "v", "w"}).Draw(t, label)
	case 1:
		return rapid.Bool().Draw(t, label)
	case 2:
		return nil
	case 3:
		return genTree(t, label, depth)
	}
	n := rapid.IntRange(0, 4).Draw(t, label)
	list := make([]any, n)
	for i := range list {
		list[i] = genValue(t, fmt.Sprint(label, i), depth-1)
		if kind == 5 { // elements that have names
			list[i] = map[string]any{"name": fmt.Sprint("n", i), "v": list[i]}
		}
	}
	return list
}

// change returns a tree that is like another, mostly.
func change(t *rapid.T, v any, depth int) any {
	switch whole := depth == 3; rapid.IntRange(0, 5).Draw(t, "change") {
	case 0:
		if !whole {
			return genValue(t, "new", depth)
		}
	case 1, 2:
		if !whole {
			return v
		}
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, f := range slices.Sorted(maps.Keys(v)) {
			if rapid.IntRange(0, 9).Draw(t, "drop") > 0 {
				out[f] = change(t, v[f], depth-1)
			}
		}
		return out
	case []any:
		out := append([]any{}, v...)
		if len(v) > 1 && rapid.Bool().Draw(t, "reorder") {
			out = rapid.Permutation(out).Draw(t, "order")
		}
		for i := range out {
			out[i] = change(t, out[i], depth-1)
		}
		if len(out) > 0 && rapid.Bool().Draw(t, "shorter") {
			i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
			out = slices.Delete(out, i, i+1)
		}
		return out
	}
	return v
}
