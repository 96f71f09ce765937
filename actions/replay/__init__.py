"""A capture shown again: its index, its clock, and the answers that a console gets from it instead of a cluster."""
