"""The endpoints for objects: lists, watches, changes, discovery and OpenAPI."""
