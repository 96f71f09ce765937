"""Runs real nodes beside a real control plane, in namespaces of their own."""
