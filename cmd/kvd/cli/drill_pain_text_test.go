package cli

import (
	"bytes"
	"testing"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/diagnose"
)

// Where no list came to its end there is no time that one took.
func TestFiguresWithoutAnAnswer(t *testing.T) {
	var b bytes.Buffer
	err := figureColumns().Write(&b, []drill.Figure{
		{What: "p99", Unit: diagnose.Seconds, Remedied: 20.2, Verdict: drill.FigureShown, From: "the load"},
		{What: "done", Unit: diagnose.Count, Remedied: 4, Verdict: drill.FigureShown, From: "the load"},
	})
	want := "FIGURE  PAIN  REMEDIED  TIMES  WANTED  VERDICT  FROM\n" +
		"p99        -     20.2s      -       -  shown    the load\n" +
		"done       0         4   0.00       -  shown    the load\n"
	if err != nil || b.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, b.String(), want)
	}
}
