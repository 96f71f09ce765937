"""The end of a run: nodes drained, remains audited."""
