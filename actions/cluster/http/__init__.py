"""HTTP to one API server: endless streams, pooled requests, and errors in the operator's terms."""
