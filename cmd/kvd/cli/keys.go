package cli

import "github.com/spf13/cobra"

// newKeysCmd groups what concerns keys.
func newKeysCmd(app *App) *cobra.Command {
	return newGroupCmd("keys", "What is stored: how much of what, who writes it, what became of it; delete it",
		newKeysUsageCmd(app, runKeysUsage), newKeysListCmd(app, runKeysList), newKeysGetCmd(app, runKeysGet), newKeysHistoryCmd(app, runKeysHistory),
		newKeysDeleteCmd(app, runKeysDelete))
}
