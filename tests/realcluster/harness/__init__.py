"""Builds, starts and stops a real control plane on the loopback address."""
