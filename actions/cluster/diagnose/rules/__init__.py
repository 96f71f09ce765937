"""The rules of a diagnosis, one module per family of faults; each reads the evidence and yields findings."""
