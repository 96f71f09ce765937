"""The controllers of the embedded cluster: clients of its API, and of nothing else."""
