"""The command line for shells and readers: completion, manual page, examples."""
