"""A run's folder on disk: journal, lease, heartbeat, and their readers."""
