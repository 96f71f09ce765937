"""The embedded Kubernetes API server: the wire protocol, served from memory."""
