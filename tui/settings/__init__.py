"""Settings of the console: keys, colours, what it is started with."""
