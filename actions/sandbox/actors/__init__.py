"""The controllers of the embedded cluster: clients of its API, and of nothing else."""

from actions.sandbox.actors.start import start

__all__ = ["start"]
