"""Container logs and files, followed line by line."""
