"""The checks of `eksml-tui doctor`: what a launch needs, asked before anything is paid for."""
