"""Verbs of `eksml-tui runs`, one module for each subject."""
