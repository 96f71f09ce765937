"""BioNeMo, as far as the data job needs it."""
