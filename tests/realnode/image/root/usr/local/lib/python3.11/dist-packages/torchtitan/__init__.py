"""TorchTitan's place: its command line and its log."""
