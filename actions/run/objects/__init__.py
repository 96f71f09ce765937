"""A run's objects in the cluster: inventory, ownership, writes, undo."""
