"""The lines that NCCL writes while it sets up its communicators with `NCCL_DEBUG=INFO`."""

from __future__ import annotations

from collections.abc import Iterator

_VERSION = "2.18.3+cuda12.2"
_CHANNELS = 2


def start_lines(host: str, *, rank: int, world_size: int, address: str, process_id: int) -> Iterator[str]:
    """The lines of one rank, in order, without newlines.

    Args:
        host: The pod's name, which starts each line.
        rank: This rank, zero-based.
        world_size: How many ranks there are.
        address: The pod's IPv4 address.
        process_id: Shown as process and thread.

    Source:
        NCCL 2.18 `src/init.cc`, `src/bootstrap.cc`, plain TCP on g5 (no EFA requested).
    """
    prefix = f"{host}:{process_id}:{process_id}"
    yield f"{prefix} [0] NCCL INFO cudaDriverVersion 12020"
    yield f"{prefix} [0] NCCL INFO Bootstrap : Using eth0:{address}<0>"
    yield f"{prefix} [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation"
    if rank == 0:
        yield f"NCCL version {_VERSION}"
    inner = f"{host}:{process_id}:{process_id + 311} [0] NCCL INFO"
    yield f"{inner} NET/IB : No device found."
    yield f"{inner} NET/Socket : Using [0]eth0:{address}<0>"
    yield f"{inner} Using network Socket"
    yield f"{inner} comm 0x{0x55D0C0DE0000 + rank * 4096:x} rank {rank} nranks {world_size} cudaDev 0 - Init START"
    previous, following = (rank - 1) % world_size, (rank + 1) % world_size
    for channel in range(_CHANNELS):
        if rank == 0:
            ring = " ".join(f"{member:3d}" for member in range(world_size))
            yield f"{inner} Channel {channel:02d}/{_CHANNELS:02d} : {ring}"
        yield f"{inner} Channel {channel:02d}/0 : {previous}[0] -> {rank}[0] [receive] via NET/Socket/0"
        yield f"{inner} Channel {channel:02d}/0 : {rank}[0] -> {following}[0] [send] via NET/Socket/0"
    yield f"{inner} Connected all rings"
    yield f"{inner} Connected all trees"
    yield f"{inner} {_CHANNELS} coll channels, 0 nvls channels, {_CHANNELS} p2p channels, 2 p2p channels per peer"
    yield (
        f"{inner} comm 0x{0x55D0C0DE0000 + rank * 4096:x} rank {rank} nranks {world_size} cudaDev 0 "
        f"nvmlDev 0 busId 1e0 commId 0x9a3f5d2b7c61e804 - Init COMPLETE"
    )
