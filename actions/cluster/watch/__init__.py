"""List and watch of one resource, as client-go's reflector does it."""
