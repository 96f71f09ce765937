"""Snapshot to rows, lines and glyphs: pure."""
