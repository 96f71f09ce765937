"""Pure readers of what trainers and tools print."""
