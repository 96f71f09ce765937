"""The console's settings: keys, appearance, start parameters."""
