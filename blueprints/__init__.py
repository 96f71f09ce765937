"""The training systems, one folder each, as data."""
