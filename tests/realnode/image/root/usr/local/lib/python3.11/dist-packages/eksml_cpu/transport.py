"""The lines of NCCL about its network. They are played: the ranks talk by gloo or MPI over TCP."""

from __future__ import annotations

import os
import socket
import sys

from eksml_cpu import devices


def announce(rank: int, ranks: int) -> None:
    """Print what NCCL prints with `NCCL_DEBUG=INFO`, in one piece; nothing otherwise."""
    if os.environ.get("NCCL_DEBUG", "").upper() not in ("INFO", "TRACE"):
        return
    host, efas = socket.gethostname(), devices.efas()
    local = int(os.environ.get("LOCAL_RANK") or os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK") or 0)
    head = f"{host}:{os.getpid()}:{os.getpid()} [{local}] NCCL INFO"
    if efas and os.environ.get("FI_PROVIDER", "efa") == "efa":
        lines = [
            "NET/OFI Initializing aws-ofi-nccl 1.8.1-aws",
            f"NET/OFI Selected Provider is efa (found {efas} nics) # played by TCP, on CPU",
            "Using network AWS Libfabric",
        ]
    else:
        lines = ["NET/Socket : Using [0]eth0 # played by TCP, on CPU", "Using network Socket"]
    lines.append(f"comm 0x{os.getpid():x} rank {rank} nranks {ranks} cudaDev {local} - Init COMPLETE")
    sys.stdout.write("".join(f"{head} {line}\n" for line in lines))
    sys.stdout.flush()
