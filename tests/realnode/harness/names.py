"""The names of the trainer's image in the blueprints' manifests, and the programs that images start themselves."""

from __future__ import annotations

_ACCOUNT = "111122223333.dkr.ecr"
"""Of the sandbox, which is also the default of a blueprint's parameter."""

TRAINERS = (
    "nvcr.io/nvidia/clara/bionemo-framework:1.2",
    "nvcr.io/nvidia/nemo:24.01.framework",
    f"{_ACCOUNT}.us-west-2.amazonaws.com/nemo-aws:24.01.framework",
    f"{_ACCOUNT}.us-west-2.amazonaws.com/neuronx_nemo:latest",
    "public.ecr.aws/data-on-eks/ray-pytorch-training-neuronx:latest",
    "public.ecr.aws/hpc-cloud/nccl-tests:latest",
)
"""What trains, measures and prepares data; the image stages of a launch name those of the account by digest, too."""
HELPERS = ("public.ecr.aws/amazonlinux/amazonlinux:2023", "public.ecr.aws/neuron/neuron-monitor:1.3.0")
"""What fetches the vocabulary, and the exporter of Neuron metrics."""
STARTED = {"nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless": ("/usr/local/bin/dcgm-exporter",)}
"""Images whose manifests name no command → their entry point."""
