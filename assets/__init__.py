"""Tables, schemas, styles and scripts that ship with the program, as data."""
