"""Tables that commands print once: their forms, and those of the cluster."""

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "csv")
"""The words of `--output`."""
