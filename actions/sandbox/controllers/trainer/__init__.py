"""The operators of TrainJobs: JobSet, and Kubeflow Trainer above it."""
