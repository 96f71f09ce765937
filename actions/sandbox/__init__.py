"""The embedded cluster: a process that serves the Kubernetes API on 127.0.0.1."""
