"""A real cluster: control plane, nodes, operators and training, all on this machine."""
