"""BioNeMo: ESM-1nv and its dataset."""
