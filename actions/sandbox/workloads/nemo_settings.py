"""What a command line of NeMo's GPT pre-training asks for, and what it then takes: memory of a GPU, time of a step.

Source:
    The published configuration gpt3/5b of NeMo 24.01; memory of mixed-precision training with a distributed optimiser
    and flash attention as in Megatron-LM's papers; rates of matrix products from NVIDIA's data sheets. Checked against
    the guide: 75,000 steps of 2,048 sequences on 16 p4de take the better part of six days.
"""

from __future__ import annotations

import msgspec

from actions.sandbox.workloads.gpu_models import GpuModel, model_of
from actions.sandbox.workloads.program import Container

PARAMETERS = 5.0e9
_LAYERS = 24
_HIDDEN = 4096
_VOCABULARY = 51200
_ACTIVATION_BYTES = 34
"""For each token, layer and hidden unit."""
_UTILISATION = 0.45
_SOCKETS_SLOW_DOWN = 3.2
_DIVERGING_RATE = 0.004
_MIB = 1 << 20


class Settings(msgspec.Struct, frozen=True):
    """What overrides and environment ask for."""

    max_steps: int
    validate_every: int
    validation_batches: int
    log_every: int
    micro_batch: int
    global_batch: int
    tensor_parallel: int
    pipeline_parallel: int
    sequence: int
    learning_rate: float
    vocabulary: str
    results: str
    nodes: int
    """torchrun's."""
    trainer_nodes: int
    processes: int
    """On each node."""
    gpu: GpuModel
    efa_interfaces: int
    """That NCCL can use: given to the pod, and the image has the plugin."""

    @property
    def world_size(self) -> int:
        """Processes in all."""
        return self.nodes * self.processes

    @property
    def data_parallel(self) -> int:
        """Ranks that each see other data."""
        return max(1, self.world_size // (self.tensor_parallel * self.pipeline_parallel))

    @property
    def step_seconds(self) -> float:
        """One optimiser step."""
        work = 6 * PARAMETERS * self.global_batch * self.sequence
        seconds = work / (self.world_size * self.gpu.dense_tflops * 1e12 * _UTILISATION)
        is_slowed = self.nodes > 1 and not self.efa_interfaces
        return seconds * (_SOCKETS_SLOW_DOWN if is_slowed else 1.0)

    @property
    def validation_seconds(self) -> float:
        """One validation: forward passes only."""
        return self.validation_batches * self.step_seconds / 3

    @property
    def weights_mib(self) -> float:
        """Weights, gradients and this rank's share of the optimiser's state."""
        shard = PARAMETERS / (self.tensor_parallel * self.pipeline_parallel)
        return shard * (2 + 4 + 12 / self.data_parallel) / _MIB

    @property
    def needed_mib(self) -> float:
        """All that one GPU must hold in a step."""
        tokens = self.micro_batch * self.sequence
        activations = tokens * _HIDDEN * _LAYERS * _ACTIVATION_BYTES / self.tensor_parallel
        logits = tokens * _VOCABULARY * 6 / self.tensor_parallel
        return self.weights_mib + (activations + logits) / _MIB + 1100

    @property
    def diverges(self) -> bool:
        """Whether this learning rate is beyond what the model stands."""
        return self.learning_rate >= _DIVERGING_RATE


def settings_of(container: Container) -> Settings:
    """Read the arguments of `train.sh`: torchrun's options and Hydra's overrides."""
    given = dict(argument.split("=", 1) for argument in container.argv if "=" in argument)
    processes = given.get("--nproc_per_node", "")
    nodes = int(given.get("--nnodes", "1").rpartition(":")[2])
    return Settings(
        max_steps=int(given.get("trainer.max_steps", "75000")),
        validate_every=int(given.get("trainer.val_check_interval", "2000")),
        validation_batches=int(given.get("trainer.limit_val_batches", "50")),
        log_every=int(given.get("trainer.log_every_n_steps", "10")),
        micro_batch=int(given.get("model.micro_batch_size", "4")),
        global_batch=int(given.get("model.global_batch_size", "2048")),
        tensor_parallel=int(given.get("model.tensor_model_parallel_size", "1")),
        pipeline_parallel=int(given.get("model.pipeline_model_parallel_size", "1")),
        sequence=int(given.get("model.encoder_seq_length", "2048")),
        learning_rate=float(given.get("model.optim.lr", "1.6e-4")),
        vocabulary=given.get("model.tokenizer.vocab_file", "/fsx_shared/data/bpe/vocab.json"),
        results=given.get("exp_manager.explicit_log_dir", "/fsx_shared/results/gpt3_5b/results"),
        nodes=nodes,
        trainer_nodes=int(given.get("trainer.num_nodes", str(nodes))),
        processes=int(processes) if processes.isdigit() else max(1, len(container.gpus)),
        gpu=model_of(container.instance_type),
        efa_interfaces=container.efa_interfaces if _has_plugin(container) else 0,
    )


def _has_plugin(container: Container) -> bool:
    """Whether the image has aws-ofi-nccl: NVIDIA's own has not."""
    return not container.image.startswith("nvcr.io/")
