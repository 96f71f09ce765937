"""One module for each way in which trainers report: what a record says in it."""
