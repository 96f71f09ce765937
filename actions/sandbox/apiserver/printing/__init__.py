"""Objects in the form that a client accepts: JSON, metadata only, or a table."""
