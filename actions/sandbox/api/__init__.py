"""The Kubernetes wire protocol, served from memory."""
