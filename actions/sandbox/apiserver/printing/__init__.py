"""Objects in the form that a client asks for: JSON, metadata only, or a table."""
