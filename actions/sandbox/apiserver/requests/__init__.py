"""Requests before an endpoint answers them: paths, bodies, rights, selectors and the server's context."""
