"""The live picture and the hands."""
