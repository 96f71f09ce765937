"""The console's settings: keys, appearance, start parameters."""

THEMES = ("dark", "light", "high-contrast", "transparent")
"""The names of the themes, the default first. Here, because the command line's help imports no library."""
