"""The data feeds of the panes, and their supervisor."""
