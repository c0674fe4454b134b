package main

import (
	"encoding/json"
	"os"
	"slices"
)

func (m measured) write(path string) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// writeInto puts the figures of one group into the file that is there, in place of
// those of the same name. Each then says of which day and version it is, where the
// file as a whole says otherwise.
func (m measured) writeInto(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var all measured
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	for _, f := range m.Figures {
		if m.Date != all.Date {
			f.Date = m.Date
		}
		if m.Version != all.Version {
			f.Version = m.Version
		}
		i := slices.IndexFunc(all.Figures, func(have dated) bool { return have.Name == f.Name })
		if i < 0 {
			all.Figures = append(all.Figures, f)
			continue
		}
		all.Figures[i] = f
	}
	return all.write(path)
}
