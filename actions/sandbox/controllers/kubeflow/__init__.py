"""The operators of Kubeflow: MPIJob and PyTorchJob."""
