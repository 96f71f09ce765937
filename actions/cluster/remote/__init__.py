"""Programs and ports in a pod: exec and port-forward."""
