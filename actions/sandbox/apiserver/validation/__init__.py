"""Defaults and checks of objects before they are stored."""
