"""Saved outputs of tools and trainers: read in pieces, told as JSON documents."""
