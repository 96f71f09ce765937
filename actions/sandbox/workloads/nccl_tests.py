"""`all_reduce_perf` of nccl-tests as one rank of mpirun: the table of message sizes, from rank 0.

Source:
    nccl-tests 2.13 `src/common.cu`, `src/util.cu`; the captured runs on 2 × g5.8xlarge and 2 × p5.48xlarge.
"""

from __future__ import annotations

import posixpath
import random

from actions.sandbox.workloads.gpu_models import GpuModel, model_of
from actions.sandbox.workloads.nccl import NcclTransport, start_lines
from actions.sandbox.workloads.nccl_fabric import Fabric, fabric_of
from actions.sandbox.workloads.nccl_failures import (
    Problem,
    closed_by_peer,
    no_registered_memory,
    no_remote_read,
    too_many_devices,
    wrong_values,
)
from actions.sandbox.workloads.nccl_options import Options, options_of
from actions.sandbox.workloads.program import Container, GpuLoad, Meeting, PeerLost, Program, Step

_START_SECONDS = 3.0
_WARMUP = 5
_MIB = 1 << 20
_RESERVED_MIB = 191.5
"""Of a device, taken by the driver and the context before the test asks what is free."""
_KEPT = 1 << 30
"""What the test leaves free; the rest is for three buffers."""
_VERSION = "2.26.2+cuda12.2"
_ELEMENT = 4
_ONLY_BUS = 3
"""Where the only GPU of a g5 is."""
_TESTING = GpuLoad(99, 4096)
_IDLE = GpuLoad(0, 0)


def is_wanted_by(container: Container) -> bool:
    """Whether a container's command is nccl-tests' all-reduce."""
    return bool(container.argv) and posixpath.basename(container.argv[0]) == "all_reduce_perf"


def run(container: Container) -> Program:
    """Test all sizes. Ends with 0, with 1 if values were wrong or NCCL failed, and aborts where EFA does."""
    rank = _Rank(container)
    problem = rank.first_problem()
    if problem:
        yield Step(_START_SECONDS, problem.text, is_error=problem.is_error)
        return problem.code
    try:
        return (yield from rank.run())
    except PeerLost:
        yield Step(2.0, closed_by_peer(container.pod, rank.number), is_error=True, load=_IDLE)
        return 1


class _Rank:
    """One process of the group."""

    def __init__(self, container: Container) -> None:
        known = container.environment
        self._container = container
        self._options: Options = options_of(container.argv[1:])
        self.number = int(known.get("OMPI_COMM_WORLD_RANK", "0"))
        self._size = int(known.get("OMPI_COMM_WORLD_SIZE", "1"))
        self._local = int(known.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
        self._on_node = int(known.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
        self._gpu: GpuModel = model_of(container.instance_type)
        self._fabric: Fabric = fabric_of(container, ranks=self._size)
        self._random = random.Random(container.seed)
        self._debug = known.get("NCCL_DEBUG", "").upper()

    def first_problem(self) -> Problem | None:
        """What ends the process before anything is measured."""
        container = self._container
        return (
            too_many_devices(container, self._options, first=self._local)
            or no_remote_read(container)
            or no_registered_memory(container, device=self._local)
        )

    def run(self) -> Program:
        """From the first meeting of the ranks to the footer."""
        known = self._container.environment
        group = f"{self._container.namespace}/{known.get('OMPI_MCA_orte_hnp_uri', self._container.pod)}/nccl-tests"
        yield Step(_START_SECONDS, meeting=Meeting(group, self._size), load=_IDLE)
        largest = min(self._options.largest, self._limit())
        if self.number == 0:
            yield Step(0.2, self._header(largest))
        yield from self._connect()
        if self.number == 0:
            yield Step(0.5, _HEADS, load=_TESTING)
        return (yield from self._measure(largest))

    def _limit(self) -> int:
        """The largest message that fits three times into a device."""
        free = int((self._gpu.total_mib - _RESERVED_MIB) * _MIB)
        return (free - _KEPT) // 3

    def _header(self, largest: int) -> str:
        options = self._options
        lines = [
            f"# nThread 1 nGpus {options.gpus} minBytes {options.smallest} maxBytes {options.largest} step: "
            f"{options.factor}(factor) warmup iters: {_WARMUP} iters: {options.iterations} agg iters: 1 validation: "
            f"{int(options.checks)} graph: 0",
            "#",
            "# Using devices",
        ]
        first = self._container.pod.rpartition("-")[0]
        for rank in range(self._size):
            host, local = f"{first}-{rank // self._on_node}", rank % self._on_node
            bus = self._gpu.buses[_ONLY_BUS if self._on_node == 1 else local].lower().removesuffix(".0")
            lines.append(
                f"#  Rank {rank:2d} Group  0 Pid {33 + local:6d} on {host:>10} device {local:2d} [0000:{bus}] "
                f"{self._gpu.name}"
            )
        lines.append("#")
        if largest < options.largest:
            lines.append(f"# Reducing maxBytes to {largest} due to memory limitation")
        return "\n".join(lines) + "\n"

    def _connect(self) -> Program:
        """What NCCL prints of itself, as much as NCCL_DEBUG asks for."""
        if self._debug in ("INFO", "TRACE"):
            lines = start_lines(
                self._container.pod,
                rank=self.number,
                world_size=self._size,
                address=f"10.0.{40 + self.number % 8}.{20 + self.number * 7 % 200}",
                process_id=33 + self._local,
                device=self._local,
                network=NcclTransport(
                    version=_VERSION,
                    efa_interfaces=self._fabric.interfaces,
                    platform=self._container.instance_type,
                    protocol="RDMA" if self._fabric.reads_remotely else "SENDRECV",
                ),
            )
            yield Step(1.0, "".join(line + "\n" for line in lines))
        elif self.number == 0 and self._debug in ("VERSION", "WARN"):
            yield Step(1.0, f"NCCL version {_VERSION}\n")
        else:
            yield Step(1.0)
        return 0

    def _measure(self, largest: int) -> Program:
        """Row by row. All ranks take the time of a row; rank 0 writes it."""
        options, wrongs = self._options, 0
        bandwidths: list[float] = []
        size = options.smallest
        while size <= largest:
            wrong = wrong_values(self._container, size // _ELEMENT)
            times = [self._fabric.time_us(size) * self._random.uniform(0.985, 1.015) for _ in ("out", "in")]
            seconds = sum(times) * (options.iterations + _WARMUP) / 1e6
            yield Step(seconds, self._row(size, times, wrong) if self.number == 0 else "", load=_TESTING)
            bandwidths += [self._fabric.bus_bandwidth(size, time) for time in times]
            wrongs += 2 * bool(wrong)
            size *= options.factor
        if self.number == 0:
            average = sum(bandwidths) / max(1, len(bandwidths))
            verdict = f"{wrongs} {'FAILED' if wrongs else 'OK'}"
            yield Step(
                0.2, f"# Out of bounds values : {verdict}\n# Avg bus bandwidth    : {average:g}\n#\n", load=_IDLE
            )
        return int(bool(wrongs))

    def _row(self, size: int, times: list[float], wrong: int) -> str:
        count = f"{wrong:g}" if self._options.checks else "N/A"
        ways = ""
        for time in times:
            speed, bus = size / time / 1e3, self._fabric.bus_bandwidth(size, time)
            ways += f" {_time_text(time):>8} {speed:>7.2f} {bus:>7.2f} {count:>6}"
        return f"{size:>12}  {size // _ELEMENT:>12}     float     sum      -1{ways}\n"


def _time_text(time_us: float) -> str:
    """Four digits or more, as the tool prints a time."""
    if time_us < 100:
        return f"{time_us:.2f}"
    return f"{time_us:.1f}" if time_us < 10_000 else f"{time_us:.0f}"


_HEADS = (
    "#\n"
    "#                                                              out-of-place                       in-place"
    "          \n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"
    "       \n"
)
