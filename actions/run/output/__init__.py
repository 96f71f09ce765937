"""The output of a stage: its log lines and log values on disk, and their collectors."""
