"""Curves, charts and readings of tools as rows and lines."""
