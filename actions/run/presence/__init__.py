"""Runs as their cluster records them: a ConfigMap for each, written by its runner and read by every console."""
