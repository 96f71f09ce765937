"""The terminal driver: input, output and what restores the terminal."""
