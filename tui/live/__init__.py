"""What feeds the screen: supervisor, stores, one ticker."""
