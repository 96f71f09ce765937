"""Everything that needs no screen."""
