"""The panes of a workspace."""
