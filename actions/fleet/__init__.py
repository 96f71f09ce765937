"""Pure facts of a fleet: nodes, pods, instance types, prices, idle accelerators."""
