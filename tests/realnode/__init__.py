<<<<<<< HEAD
"""A real cluster: control plane, nodes, operators and training, all on this machine."""
=======
"""On real nodes of this machine: kubelet, containers and the real operators."""
>>>>>>> parts
