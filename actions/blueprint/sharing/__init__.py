"""Blueprints of other people's git repositories: where from, what they may do, and their files as they were added."""
