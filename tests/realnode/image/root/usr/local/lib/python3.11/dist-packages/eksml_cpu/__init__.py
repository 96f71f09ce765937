"""Small real versions, on CPU, of the programs that the blueprints' containers start."""
