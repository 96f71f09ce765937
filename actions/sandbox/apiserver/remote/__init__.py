"""Streams of containers: logs, exec, attach and forwarded ports."""
