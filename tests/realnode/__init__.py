"""On real nodes of this machine: kubelet, containers and the real operators."""
