"""Streams of containers: logs, exec and forwarded ports."""
