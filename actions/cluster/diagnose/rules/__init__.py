"""One module a family of faults; each rule reads the evidence and yields findings."""
