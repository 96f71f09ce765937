"""Runs as their cluster knows them: a ConfigMap for each, written by its runner and read by every console."""
