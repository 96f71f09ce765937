"""Objects of any kind: client, server-side apply, status rules."""
