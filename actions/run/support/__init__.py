"""One archive for a bug report about a run: all that is known of it, without secrets."""
