"""The store of runs: a place in S3 that the runs of a team are replicated to as they are written."""
