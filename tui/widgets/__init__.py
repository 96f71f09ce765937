"""Things that draw."""
