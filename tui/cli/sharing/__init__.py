"""Commands that show a console or a run to others: `serve`, `support`, and what a capture holds."""
