"""How nccl-tests fail over EFA, in the words of libfabric, aws-ofi-nccl, NCCL and the tests themselves.

Source: libfabric 1.22's efa provider, aws-ofi-nccl 1.13, NCCL 2.26 `src/transport/net_socket.cc`, nccl-tests 2.13
`src/common.cu`; NCCL's documentation of NCCL_PROTO for the protocol that corrupts data.
"""

from __future__ import annotations

import msgspec

from actions.fleet.instance_types import InstanceTable
from actions.sandbox.workloads.nccl_options import Options
from actions.sandbox.workloads.program import Container

_ABORTED = 134
_FAILED = 1
_LINKED = ("p4", "p5", "p6")
"""Families whose GPUs are linked, which is what the protocol LL128 needs."""


class Problem(msgspec.Struct, frozen=True):
    """What a process says before it ends."""

    text: str
    code: int
    is_error: bool = True


def too_many_devices(container: Container, options: Options, *, first: int) -> Problem | None:
    """The test wants more devices than the container was given."""
    wanted, there = first + options.gpus, len(container.gpus)
    if wanted <= there:
        return None
    return Problem(
        f"Invalid number of GPUs: {wanted} requested but only {there} were found.\n"
        "Please check the number of processes and GPUs per process.\n"
        f" .. {container.pod} pid {33 + first}: Test failure common.cu:1074\n",
        _FAILED,
        is_error=False,
    )


def no_remote_read(container: Container) -> Problem | None:
    """Somebody demands RDMA read of a device that has none: libfabric aborts the process."""
    kind = InstanceTable.load().find(container.instance_type)
    demands = container.environment.get("FI_EFA_USE_DEVICE_RDMA") == "1" and container.efa_interfaces
    if not demands or kind is None or kind.efa_reads_remotely:
        return None
    return Problem(
        "FI_EFA_USE_DEVICE_RDMA=1 was set by user, but EFA device has no rdma-read capability.  Application will "
        f"abort().\n[{container.pod}:00033] *** Process received signal ***\n[{container.pod}:00033] Signal: Aborted "
        "(6)\n",
        _ABORTED,
    )


def no_registered_memory(container: Container, *, device: int) -> Problem | None:
    """EFA is told to set an attribute on GPU memory that NCCL 2.19 and later allocate in another way."""
    if container.environment.get("FI_EFA_SET_CUDA_SYNC_MEMOPS") != "1" or not container.efa_interfaces:
        return None
    return Problem(
        f"{container.pod}:33:75 [{device}] register_rail_mr_buffer:617 NCCL WARN NET/OFI Unable to register memory "
        f"(type = 2) for device {device}. RC: -22, Error: Invalid argument\n"
        f"{container.pod}: Test NCCL failure common.cu:1005 'unhandled system error (run with NCCL_DEBUG=INFO for "
        f"details) / '\n .. {container.pod} pid 33: Test failure common.cu:891\n",
        _FAILED,
    )


def closed_by_peer(pod: str, rank: int) -> str:
    """Another rank has gone: this one only finds its connection closed."""
    return (
        f"{pod}:33:75 [0] socket.cc:46 NCCL WARN Net : Connection closed by remote peer\n"
        f"{pod}: Test NCCL failure common.cu:1005 'ncclRemoteError: A call failed possibly due to a network error or a "
        f"remote process exiting prematurely. / '\n .. {pod} pid 33 rank {rank}: Test failure common.cu:891\n"
    )


def wrong_values(container: Container, count: int) -> int:
    """How many of `count` values come out wrong: half, where LL128 is forced on GPUs without links."""
    is_forced = container.environment.get("NCCL_PROTO", "").upper() == "LL128"
    return max(1, count // 2) if is_forced and not container.instance_type.startswith(_LINKED) else 0
