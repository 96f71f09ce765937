"""The data feeds behind the panes, and their supervisor."""
