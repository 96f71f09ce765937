"""A small shell and the commands on its path."""
