"""Archives of runs, and copies of runs that are no longer needed."""
