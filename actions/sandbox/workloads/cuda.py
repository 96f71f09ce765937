"""What PyTorch says when a device's memory is full.

Source: `torch.cuda.OutOfMemoryError` of PyTorch 2.2, `c10/cuda/CUDACachingAllocator.cpp`.
"""

from __future__ import annotations

_RESERVED_GIB = 1.12
_CONTEXT_MIB = 1900
_PROCESS = 103


def cuda_out_of_memory(*, device: int, total_mib: int, free_mib: int, asked_gib: float) -> str:
    """The last line of the traceback."""
    used, allocated = total_mib - free_mib, total_mib - free_mib - _CONTEXT_MIB
    return (
        f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked_gib:.2f} GiB. GPU {device} has a"
        f" total capacity of {total_mib / 1024:.2f} GiB of which {free_mib / 1024:.2f} GiB is free. Process {_PROCESS}"
        f" has {used / 1024:.2f} GiB memory in use. Of the allocated memory {allocated / 1024:.2f} GiB is allocated by"
        f" PyTorch, and {_RESERVED_GIB:.2f} GiB is reserved by PyTorch but unallocated. If reserved but unallocated"
        " memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n"
    )
