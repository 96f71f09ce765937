"""The output of a stage: its log lines and findings on disk, and their collectors."""
