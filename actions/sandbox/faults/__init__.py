"""What goes wrong on purpose, between the API server and its clients."""
