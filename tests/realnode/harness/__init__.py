"""Builds and starts real nodes beside a real control plane."""
