"""The structure of `blueprint.yaml`: its schema, mistakes in it, the page with every key."""
