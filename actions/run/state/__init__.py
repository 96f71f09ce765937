"""A run's records, and the state that follows from them. Pure."""
