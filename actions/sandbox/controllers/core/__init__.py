"""Kubernetes' own controllers: workloads, claims, and the scheduler."""
