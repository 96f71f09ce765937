"""Blueprints against the sources that they follow: configurations, flags, packages and lists as fixtures name them."""
