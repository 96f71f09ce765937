"""Commands that show a console or a run to others: `serve` and `support`."""
