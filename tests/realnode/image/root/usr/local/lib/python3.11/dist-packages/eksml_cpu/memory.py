"""The end of a training whose real model would not fit into its GPUs: played, so that it can be seen on CPU."""

from __future__ import annotations

import torch

from eksml_cpu import devices

_TOTAL_MIB = {"g5": 23_028, "g6e": 46_068, "p4d": 40_960, "p4de": 81_920, "p5": 81_559, "p5e": 143_771, "p5en": 143_771}
_DRIVER_MIB = 512


def need_gpu_memory(mebibytes: float) -> None:
    """Raise what PyTorch raises if a GPU of this node has less memory.

    Raises:
        torch.cuda.OutOfMemoryError: It has.
    """
    total = _TOTAL_MIB.get(devices.instance_type().partition(".")[0], 23_028) - _DRIVER_MIB
    if mebibytes <= total:
        return
    used = total - 612
    free, allocated = 612, used - 1900
    raise torch.cuda.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {mebibytes / 6 / 1024:.2f} GiB. GPU 0 has a total capacity of "
        f"{total / 1024:.2f} GiB of which {free / 1024:.2f} GiB is free. Process 103 has {used / 1024:.2f} GiB memory "
        f"in use. Of the allocated memory {allocated / 1024:.2f} GiB is allocated by PyTorch, and 1.12 GiB is reserved "
        "by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )
