"""A run that moves to this machine: taken over from its home, or rebuilt from what it has left."""
