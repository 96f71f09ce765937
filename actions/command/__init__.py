"""The commands as data: keys, palette, `:` line, scripts and command line derive from here."""
