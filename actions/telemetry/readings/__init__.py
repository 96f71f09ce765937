"""Captured outputs of tools and trainers: read in pieces, written as JSON documents."""
