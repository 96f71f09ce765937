"""Home: what its lines are, and how they are laid out for a size."""
