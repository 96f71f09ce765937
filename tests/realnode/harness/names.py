"""The names of the trainer's image in the blueprints' manifests, and the programs that images start themselves."""

from __future__ import annotations

_REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
"""Of the sandbox's account, as in the blueprints' defaults."""

TRAINERS = (
    f"{_REGISTRY}/nemo-efa:24.01.framework",
    f"{_REGISTRY}/neuronx_nemo:latest",
    "nvcr.io/nvidia/clara/bionemo-framework:1.2",
    "nvcr.io/nvidia/nemo:24.01.framework",
    "public.ecr.aws/data-on-eks/ray-pytorch-training-neuronx:latest",
    "public.ecr.aws/hpc-cloud/nccl-tests:latest",
    "registry.example/torchtitan:0.2.2",
)
"""They train, measure and prepare data. `nemo-efa` is given to a launch, which refuses NVIDIA's own: it has no EFA."""
HELPERS = (
    "public.ecr.aws/amazonlinux/amazonlinux:2023",
    "public.ecr.aws/docker/library/python:3.12",
    "public.ecr.aws/neuron/neuron-monitor:1.3.0",
)
"""The fetcher of the vocabulary, what common manifests name until a blueprint does, the exporter of Neuron metrics."""
STARTED = {"nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless": ("/usr/local/bin/dcgm-exporter",)}
"""Images whose manifests name no command → their entry point."""
