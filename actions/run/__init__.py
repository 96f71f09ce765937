"""A run: a blueprint carried out durably, stage by stage, by a process of its own."""
