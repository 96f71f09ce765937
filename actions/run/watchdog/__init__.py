"""The watchdog of a run: a CronJob in its cluster that frees accelerators when the runner's heartbeat stays away."""
