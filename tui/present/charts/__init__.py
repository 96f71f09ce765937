"""Curves and charts: what is read from a log, as lines and dots."""
