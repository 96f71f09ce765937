"""The dialects: a module for each way in which trainers report."""
