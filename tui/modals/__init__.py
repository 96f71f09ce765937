"""Questions that have to be answered first."""
