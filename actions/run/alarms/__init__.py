"""Alarms of runs and of jobs: found, recorded once, and sent by a hook or a webhook."""
