"""The handlers of all commands, and the dispatcher that runs them."""
