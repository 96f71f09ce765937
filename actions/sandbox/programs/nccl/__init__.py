"""NCCL: the lines of its setup, its tests, the fabric below it."""
