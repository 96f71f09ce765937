"""One archive for a bug report about a run: what there is to know, without secrets."""
