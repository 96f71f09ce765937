"""The stage handlers, in one module for each kind."""
