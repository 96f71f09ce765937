"""Pure functions from snapshots and views to rows, lines and glyphs."""
