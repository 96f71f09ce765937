"""Why a container cannot pre-train GPT, in the words of NeMo, PyTorch and NCCL.

Source: PyTorch 2.2 (`CUDACachingAllocator.cpp`, `ProcessGroupNCCL.cpp`), aws-ofi-nccl 1.8, NeMo 24.01's tokenizer.
"""

from __future__ import annotations

from actions.sandbox.workloads.cuda import cuda_out_of_memory
from actions.sandbox.workloads.nemo_settings import Settings
from actions.sandbox.workloads.program import Container

WATCHDOG_SECONDS = 600.0
_CLOSING = "terminate called after throwing an instance of 'c10::DistBackendError'\n"


def missing_data(container: Container) -> str:
    """What `train.sh` says if a tokenised file is not there; empty if all are, or none is wanted."""
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


def no_device(settings: Settings, container: Container) -> str:
    """More processes than devices; empty if there are enough."""
    if settings.processes <= len(container.gpus):
        return ""
    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/NeMo/examples/nlp/language_modeling/megatron_gpt_pretraining.py", line 36, in main\n'
        "    trainer = MegatronTrainerBuilder(cfg).create_trainer()\n"
        "RuntimeError: CUDA error: invalid device ordinal\n"
        "CUDA kernel errors might be asynchronously reported at some other API call.\n"
    )


def missing_vocabulary(settings: Settings, container: Container) -> str:
    """The tokenizer's traceback if its vocabulary is not there; empty if it is."""
    if container.files.file(settings.vocabulary):
        return ""
    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/NeMo/nemo/collections/nlp/models/language_modeling/megatron_base_model.py", line 314, in '
        "_build_tokenizer\n"
        "    self.tokenizer = get_nmt_tokenizer(\n"
        f"FileNotFoundError: [Errno 2] No such file or directory: '{settings.vocabulary}'\n"
    )


def no_locked_memory(settings: Settings, container: Container, *, rank: int) -> str:
    """EFA without the right to lock memory; empty if the pod has it, or there is no EFA."""
    if not settings.efa_interfaces or "IPC_LOCK" in container.capabilities:
        return ""
    return (
        f"{container.pod}:103:414 [0] register_rail_mr_buffer:617 NCCL WARN NET/OFI Unable to register memory (type ="
        " 2) for device 0. RC: -12, Error: Cannot allocate memory\n"
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: "
        "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, unhandled system error, NCCL version 2.20.3\n"
        f"[rank{rank}]: ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device "
        "error.\n"
    )


def out_of_memory(settings: Settings, *, device: int) -> str:
    """CUDA's allocator gives up in the first step; empty if the step fits."""
    total = settings.gpu.total_mib - 870
    if settings.needed_mib <= total:
        return ""
    free = 700 + device * 37
    asked = settings.micro_batch * settings.sequence * 51200 * 4 / settings.tensor_parallel / (1 << 30)
    return cuda_out_of_memory(device=device, total_mib=total, free_mib=free, asked_gib=max(asked, 0.4))


def watchdog(rank: int, *, sequence: int, moment: str) -> str:
    """A rank's watchdog ends its process: a collective has not come to an end in ten minutes.

    Args:
        rank: Whose.
        sequence: Number of the collective; 1 for the first.
        moment: As `0301 12:00:00.000000`.
    """
    first = f"[rank{rank}]:[E{moment} ProcessGroupNCCL.cpp"
    kind = "BROADCAST" if sequence == 1 else "ALLREDUCE"
    ran = int(WATCHDOG_SECONDS * 1000) + 81 + rank
    return (
        f"{first}:523] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, "
        f"OpType={kind}, NumelIn=131072000, NumelOut=131072000, Timeout(ms)=600000) ran for {ran} milliseconds before "
        "timing out.\n"
        f"{first}:1537] [PG 0 Rank {rank}] Timeout at NCCL work: {sequence}, last enqueued NCCL work: {sequence + 3}, "
        f"last completed NCCL work: {-1 if sequence == 1 else sequence - 1}.\n"
        f"{first}:1182] [PG 0 Rank {rank}] To avoid data inconsistency, we are taking the entire process down.\n"
        + _CLOSING
    )


def closed_by_peer(rank: int, container: Container) -> str:
    """A rank finds its socket closed: another one has died."""
    return (
        f"{container.pod}:103:414 [0] socket.cpp:46 NCCL WARN Net : Connection closed by remote peer\n"
        f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: "
        "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, remote process exited or there was a network error\n"
        f"[rank{rank}]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
        "prematurely.\n" + _CLOSING
    )
