"""Every verb once, as data: keys, palette, `:` line, script and command line derive from here."""
