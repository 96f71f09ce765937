"""What every command does, and the dispatcher that runs it."""
