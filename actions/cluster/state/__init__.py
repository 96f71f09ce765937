"""The live state of one cluster: facts, stores, and immutable snapshots."""
