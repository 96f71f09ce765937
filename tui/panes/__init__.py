"""What can stand in a split."""
