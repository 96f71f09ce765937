"""The disk space of runs: sizes, compaction, archives."""
