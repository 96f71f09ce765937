"""Injected faults between the API server and its clients."""
