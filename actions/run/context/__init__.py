"""What a stage handler is given: its context, cluster access, retries, secrets."""
