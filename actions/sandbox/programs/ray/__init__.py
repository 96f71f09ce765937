"""Ray in containers: head, workers, job submission, and the drivers of the Ray blueprint."""
