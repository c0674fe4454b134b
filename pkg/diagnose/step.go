package diagnose

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Step is one thing to do: a command to type, or words where there is none.
type Step struct {
	Command string `json:"command,omitempty"` // for a shell; capitals stand for what only the reader knows: NAME, FILE
	Purpose string `json:"purpose,omitempty"` // what the command is for; what to do where there is none
}

// beforePurpose parts a command from what it is for. A shell takes that for a comment.
const beforePurpose = "  # "

// stepOf takes a line of Finding.Remedy apart.
func stepOf(line string) Step {
	if !strings.HasPrefix(line, "kvd ") && !strings.HasPrefix(line, "etcdctl ") {
		return Step{Purpose: line}
	}
	if i := strings.LastIndex(line, beforePurpose); i >= 0 {
		return Step{Command: line[:i], Purpose: line[i+len(beforePurpose):]}
	}
	return Step{Command: line}
}

// UnmarshalJSON also takes a line, which is what reports had before commands and
// purposes were told apart.
func (s *Step) UnmarshalJSON(raw []byte) error {
	var line string
	if json.Unmarshal(raw, &line) == nil {
		*s = stepOf(line)
		return nil
	}
	type plain Step
	return json.Unmarshal(raw, (*plain)(s))
}

// Line is the step as one line that can be pasted into a shell where it has a command.
func (s Step) Line() string {
	switch {
	case s.Command == "":
		return s.Purpose
	case s.Purpose == "":
		return s.Command
	}
	return s.Command + beforePurpose + s.Purpose
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord quotes an argument for a shell where it needs to be.
func ShellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
