package cli

import "github.com/spf13/cobra"

// newKeysCmd groups what concerns keys.
func newKeysCmd(app *App) *cobra.Command {
	return newGroupCmd("keys", "What is stored: see it, delete it", newKeysDeleteCmd(app, runKeysDelete))
}
