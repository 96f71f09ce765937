"""Llama 2 by neuronx-nemo-megatron on Trainium."""
