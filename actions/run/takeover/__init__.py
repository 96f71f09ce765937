"""A run that moves to this machine: taken over from its store, or rebuilt from what it has left."""
