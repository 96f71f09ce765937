"""The lines that NCCL writes while it sets up its communicators with `NCCL_DEBUG=INFO`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_CHANNELS = 2


class NcclTransport(msgspec.Struct, frozen=True):
    """The transport between ranks."""

    version: str = "2.18.3+cuda12.2"
    """NCCL's."""
    efa_interfaces: int = 0
    """The number of interfaces that aws-ofi-nccl finds; 0 for TCP sockets."""
    platform: str = ""
    """With EFA: the instance type."""
    protocol: str = "SENDRECV"
    """With EFA: of the plugin's transport, `RDMA` from p5 on."""

    def transport(self, device: int) -> str:
        """Return the transport's name in the lines about channels."""
        return f"AWS Libfabric/{device % self.efa_interfaces}/GDRDMA" if self.efa_interfaces else "Socket/0"


SOCKETS = NcclTransport()


def start_lines(
    host: str,
    *,
    rank: int,
    world_size: int,
    address: str,
    process_id: int,
    device: int = 0,
    network: NcclTransport = SOCKETS,
) -> Iterator[str]:
    """The lines of one rank, in order, without newlines.

    Args:
        host: The pod's name, which starts each line.
        rank: This rank, zero-based.
        world_size: How many ranks there are.
        address: The pod's IPv4 address.
        process_id: Shown as process and thread.
        device: Its GPU in the container.
        network: What it talks over.

    Source:
        NCCL 2.18 and 2.20 `src/init.cc`, `src/bootstrap.cc`; aws-ofi-nccl 1.8 `src/nccl_ofi_net.c`.
    """
    prefix = f"{host}:{process_id}:{process_id} [{device}] NCCL INFO"
    yield f"{prefix} cudaDriverVersion 12020"
    yield f"{prefix} Bootstrap : Using eth0:{address}<0>"
    if not network.efa_interfaces:
        yield f"{prefix} NET/Plugin : No plugin found (libnccl-net.so), using internal implementation"
    if rank == 0:
        yield f"NCCL version {network.version}"
    inner = f"{host}:{process_id}:{process_id + 311} [{device}] NCCL INFO"
    yield from (f"{inner} {line}" for line in _network_lines(network, address))
    communicator = f"comm 0x{0x55D0C0DE0000 + rank * 4096:x} rank {rank} nranks {world_size} cudaDev {device}"
    yield f"{inner} {communicator} - Init START"
    transport = network.transport(device)
    previous, following = (rank - 1) % world_size, (rank + 1) % world_size
    for channel in range(_CHANNELS):
        if rank == 0:
            ring = " ".join(f"{member:3d}" for member in range(world_size))
            yield f"{inner} Channel {channel:02d}/{_CHANNELS:02d} : {ring}"
        yield f"{inner} Channel {channel:02d}/0 : {previous}[0] -> {rank}[0] [receive] via NET/{transport}"
        yield f"{inner} Channel {channel:02d}/0 : {rank}[0] -> {following}[0] [send] via NET/{transport}"
    yield f"{inner} Connected all rings"
    yield f"{inner} Connected all trees"
    yield f"{inner} {_CHANNELS} coll channels, 0 nvls channels, {_CHANNELS} p2p channels, 2 p2p channels per peer"
    yield f"{inner} {communicator} nvmlDev {device} busId 1e0 commId 0x9a3f5d2b7c61e804 - Init COMPLETE"


def _network_lines(network: NcclTransport, address: str) -> Iterator[str]:
    if not network.efa_interfaces:
        yield "NET/IB : No device found."
        yield f"NET/Socket : Using [0]eth0:{address}<0>"
        yield "Using network Socket"
        return
    yield "NET/OFI Initializing aws-ofi-nccl 1.8.1-aws"
    yield "NET/OFI Configuring AWS-specific options"
    yield "NET/OFI Setting FI_EFA_FORK_SAFE environment variable to 1"
    if network.platform:
        yield f"NET/OFI Running on {network.platform} platform"
    yield f"NET/OFI Selected Provider is efa (found {network.efa_interfaces} nics)"
    yield f"NET/OFI Using transport protocol {network.protocol}"
    yield "Using network AWS Libfabric"
