"""The settings of NeMo's GPT pre-training: the memory and time that they take, and the failures that follow from them.

Source:
    The published configuration gpt3/5b of NeMo 24.01; memory of mixed-precision training with a distributed optimiser
    and flash attention as in Megatron-LM's papers; rates of matrix products from NVIDIA's data sheets. Checked against
    the guide: 75,000 steps of 2,048 sequences on 16 p4de take the better part of six days. Failures: PyTorch 2.2
    (`CUDACachingAllocator.cpp`, `ProcessGroupNCCL.cpp`), aws-ofi-nccl 1.8, NeMo 24.01's tokenizer.
"""

from __future__ import annotations

from actions.sandbox.programs.nvidia import GpuModel, model_of
from actions.sandbox.programs.program import ContainerView
from actions.sandbox.programs.pytorch import cuda_out_of_memory, shows_rate
from actions.sandbox.programs.trainings import TrainerSettings, overrides_of, processes_of, schedule_of

PARAMETERS = 5.0e9
_LAYERS = 24
_HIDDEN = 4096
_VOCABULARY = 51200
_ACTIVATION_BYTES = 34
"""For each token, layer and hidden unit."""
_UTILISATION = 0.45
_DIVERGING_RATE = 0.004
_MIB = 1 << 20


class GptSettings(TrainerSettings, frozen=True, kw_only=True):
    """The settings in overrides and environment."""

    validation_batches: int
    log_every: int
    global_batch: int
    tensor_parallel: int
    pipeline_parallel: int
    sequence: int
    vocabulary: str
    gpu: GpuModel
    efa_interfaces: int

    @property
    def data_parallel(self) -> int:
        """The number of ranks that each see other data."""
        return max(1, self.world_size // (self.tensor_parallel * self.pipeline_parallel))

    @property
    def step_seconds(self) -> float:
        """The duration of an optimiser step."""
        work = 6 * PARAMETERS * self.global_batch * self.sequence
        return work / (self.world_size * self.gpu.dense_tflops * 1e12 * _UTILISATION)

    @property
    def validation_seconds(self) -> float:
        """The duration of a validation: forward passes only."""
        return self.validation_batches * self.step_seconds / 3

    @property
    def weights_mib(self) -> float:
        """The memory of weights, gradients and this rank's share of the optimiser's state."""
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
        """True if the learning rate is beyond what the model stands."""
        return self.schedule.peak >= _DIVERGING_RATE


def gpt_settings(container: ContainerView) -> GptSettings:
    """Read the arguments of `train.sh`: torchrun's options and Hydra's overrides."""
    given = overrides_of(container)
    nodes = int(given.get("--nnodes", "1").rpartition(":")[2])
    max_steps = int(given.get("trainer.max_steps", "75000"))
    return GptSettings(
        max_steps=max_steps,
        validate_every=int(given.get("trainer.val_check_interval", "2000")),
        validation_batches=int(given.get("trainer.limit_val_batches", "50")),
        log_every=int(given.get("trainer.log_every_n_steps", "10")),
        micro_batch=int(given.get("model.micro_batch_size", "4")),
        global_batch=int(given.get("model.global_batch_size", "2048")),
        tensor_parallel=int(given.get("model.tensor_model_parallel_size", "1")),
        pipeline_parallel=int(given.get("model.pipeline_model_parallel_size", "1")),
        sequence=int(given.get("model.encoder_seq_length", "2048")),
        schedule=schedule_of(given, steps=max_steps, peak="1.6e-4", least="1.6e-5", warmup="115", constant="12500"),
        shows_rate=shows_rate(container),
        vocabulary=given.get("model.tokenizer.vocab_file", "/fsx_shared/data/bpe/vocab.json"),
        results=given.get("exp_manager.explicit_log_dir", "/fsx_shared/results/gpt3_5b/results"),
        nodes=nodes,
        processes=processes_of(given.get("--nproc_per_node", ""), container),
        gpu=model_of(container.instance_type),
        efa_interfaces=container.efa_interfaces,
    )


WATCHDOG_SECONDS = 600.0


def missing_data(container: ContainerView) -> str:
    """Return the line of `train.sh` for a missing tokenised file; empty if all are there, or none is needed."""
    known = container.environment
    if known.get("DATA") == "sample":
        return ""
    folder = known.get("DATA_DIR", "/fsx_shared/data")
    for number in range(int(known.get("FIRST_FILE", "0")), int(known.get("LAST_FILE", "0")) + 1):
        for ending in (".bin", ".idx"):
            path = f"{folder}/my-gpt3_{number:02d}_text_document{ending}"
            found = container.files.file(path)
            if found is None or not found.size_bytes:
                return (
                    f"FileNotFoundError: {path} is missing or empty; run the data stage, or correct first_file and "
                    "files\n"
                )
    return ""


def missing_vocabulary(settings: GptSettings, container: ContainerView) -> str:
    """Return the tokenizer's traceback if its vocabulary is missing; empty if it is there."""
    if container.files.file(settings.vocabulary):
        return ""
    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/NeMo/nemo/collections/nlp/models/language_modeling/megatron_base_model.py", line 314, in '
        "_build_tokenizer\n"
        "    self.tokenizer = get_nmt_tokenizer(\n"
        f"FileNotFoundError: [Errno 2] No such file or directory: '{settings.vocabulary}'\n"
    )


def out_of_memory(settings: GptSettings, *, device: int) -> str:
    """Return CUDA's error in the first step; empty if the step fits."""
    total = settings.gpu.total_mib - 870
    if settings.needed_mib <= total:
        return ""
    free = 700 + device * 37
    asked = settings.micro_batch * settings.sequence * 51200 * 4 / settings.tensor_parallel / (1 << 30)
    return cuda_out_of_memory(device=device, total_mib=total, free_mib=free, asked_gib=max(asked, 0.4))


def watchdog(rank: int, *, sequence: int, moment: str) -> str:
    """Return the lines of a rank's watchdog, which ends its process: a collective has not ended in ten minutes.

    Args:
        rank: Whose.
        sequence: Number of the collective.
        moment: As `0301 12:00:00.000000`.
    """
    first = f"[rank{rank}]:[E{moment} ProcessGroupNCCL.cpp"
    ran = int(WATCHDOG_SECONDS * 1000) + 81 + rank
    return (
        f"{first}:523] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, "
        f"OpType=ALLREDUCE, NumelIn=131072000, NumelOut=131072000, Timeout(ms)=600000) ran for {ran} milliseconds "
        "before timing out.\n"
        f"{first}:1537] [PG 0 Rank {rank}] Timeout at NCCL work: {sequence}, last enqueued NCCL work: {sequence + 3}, "
        f"last completed NCCL work: {sequence - 1}.\n"
        f"{first}:1182] [PG 0 Rank {rank}] To avoid data inconsistency, we are taking the entire process down.\n"
        "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    )
