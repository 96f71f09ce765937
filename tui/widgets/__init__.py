"""The widgets of the console: tables, logs, plots, forms, terminals, layout."""
