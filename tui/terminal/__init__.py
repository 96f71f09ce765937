"""The terminal driver: input, output, and restoring the terminal."""
