"""Blueprints: schema, parameters, rendering, cost before launch."""
