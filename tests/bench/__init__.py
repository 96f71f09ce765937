"""Benchmarks of the whole program. Not collected by pytest: nothing in a test is timed."""
