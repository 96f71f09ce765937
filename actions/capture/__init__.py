"""Captures: everything that the backends sent to a console, in a file; format, writer, reader, edges."""
