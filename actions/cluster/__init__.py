"""The Kubernetes API: one session, reflectors, state, apply, logs, exec."""
