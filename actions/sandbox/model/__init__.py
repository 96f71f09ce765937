"""The values that every part of the sandbox shares; they use no other part."""
