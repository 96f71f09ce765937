"""Limits of a run, at which its runner parks it or tears it down."""
