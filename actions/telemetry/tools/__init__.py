"""Readers of the outputs of tools: nvidia-smi, Neuron, nccl-tests, fi_info, kubectl describe."""
