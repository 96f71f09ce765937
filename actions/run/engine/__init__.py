"""The runner: one detached process that carries a run out."""
