"""One module a kind of stage."""
