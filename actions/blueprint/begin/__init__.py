"""A blueprint that is begun from a job: its manifests, its parameters, its files."""
