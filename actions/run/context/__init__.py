"""The surroundings of a stage handler: context, cluster access, retries, secrets, protocols."""
