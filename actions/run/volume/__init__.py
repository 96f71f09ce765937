"""Commands and helper Jobs on a run's volume."""
