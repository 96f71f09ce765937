"""`nvidia-smi nvlink` in a container: counters, speeds and errors of the links between a node's GPUs.

Of GPUs without links it prints nothing. The payload under full load is that of products of matrices and all-reduces.

Source: `docs/facts/nvidia-smi.md#nvlink`; `nvlink_*` and `console_even` of two H100, in `tests/fixtures/h100x2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from actions.sandbox.programs.nvidia import NvidiaDevice, read
from actions.sandbox.programs.program import ContainerView, GpuLoad, Program, ProgramStep

_KIB_A_SECOND = 1_600_000
"""Of a link in one direction, under full load."""
_RAW_SHARE = 1.21
"""Bytes on the wire for one of payload, in an all-reduce."""
_SPEEDS = {12: "25 GB/s", 18: "26.562 GB/s"}
"""Of a link in one direction, by the number of links: NVLink 3 and 4."""
_ERRORS = ("Replay", "Recovery", "CRC")
_USAGE = "Invalid combination of input arguments. Please run 'nvidia-smi nvlink -h' for help.\n"


def run_nvlink(container: ContainerView, busy_seconds: float, argv: Sequence[str]) -> Program:
    """Run `nvidia-smi nvlink` with its arguments: `-gt d`, `-gt r`, `-s` or `-e`.

    Args:
        container: The one with the devices.
        busy_seconds: For how long they have been busy.
        argv: The arguments after `nvlink`.
    """
    devices = [one for one in read(container, GpuLoad(), 0.0) if one.model.nvlinks]
    payload = round(busy_seconds * _KIB_A_SECOND) if len(devices) > 1 else 0
    match list(argv):
        case ["-gt", "d"]:
            lines = [line for one in devices for line in _counters(one, "Data", payload)]
        case ["-gt", "r"]:
            lines = [line for one in devices for line in _counters(one, "Raw", round(payload * _RAW_SHARE))]
        case ["-s"]:
            lines = [line for one in devices for line in _speeds(one)]
        case ["-e"]:
            lines = [line for one in devices for line in _errors(one)]
        case _:
            yield ProgramStep(0.0, _USAGE)
            return 1
    yield ProgramStep(0.0, "".join(f"{line}\n" for line in lines))
    return 0


def _head(one: NvidiaDevice) -> str:
    return f"GPU {one.index}: {one.model.name} (UUID: {one.uuid})"


def _counters(one: NvidiaDevice, kind: str, kib: int) -> Iterator[str]:
    yield _head(one)
    for link in range(one.model.nvlinks):
        for way in ("Tx", "Rx"):
            yield f"\t Link {link}: {kind} {way}: {kib} KiB"


def _speeds(one: NvidiaDevice) -> Iterator[str]:
    yield _head(one)
    for link in range(one.model.nvlinks):
        yield f"\t Link {link}: {_SPEEDS[one.model.nvlinks]}"


def _errors(one: NvidiaDevice) -> Iterator[str]:
    yield _head(one)
    for link in range(one.model.nvlinks):
        yield from (f"\t Link {link}: {kind} Errors: 0" for kind in _ERRORS)
        yield ""
