"""`all_reduce_perf` of nccl-tests as one rank of mpirun: options, table of message sizes, failures over EFA.

Source:
    nccl-tests 2.13 `src/common.cu`, `src/util.cu`; the captured runs on 2 × g5.8xlarge and 2 × p5.48xlarge; libfabric
    1.22's efa provider, aws-ofi-nccl 1.13, NCCL 2.26 `src/transport/net_socket.cc`.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Sequence

import msgspec

from actions.fleet.instance_types import InstanceTable
from actions.sandbox.programs.nccl.fabric import Fabric, fabric_of
from actions.sandbox.programs.nccl.setup_log import NcclTransport, start_lines
from actions.sandbox.programs.nvidia import GpuModel, model_of
from actions.sandbox.programs.program import ContainerView, GpuLoad, PeerLost, Program, ProgramStep, Rendezvous

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LONG = {
    "--minbytes": "-b",
    "--maxbytes": "-e",
    "--stepfactor": "-f",
    "--ngpus": "-g",
    "--check": "-c",
    "--iters": "-n",
}


class NcclTestOptions(msgspec.Struct, frozen=True):
    """The options of a test. Sizes in bytes."""

    smallest: int = 32 << 20
    largest: int = 32 << 20
    factor: int = 2
    gpus: int = 1
    iterations: int = 20
    checks: bool = True


def options_of(argv: Sequence[str]) -> NcclTestOptions:
    """Read the options; one that is not known, or not a number, counts as not given."""
    given: dict[str, int] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, _, value = word.partition("=")
        name = _LONG.get(name, name)
        if name in _LONG.values():
            number = _number(value or (words.pop(0) if words else ""))
            if number is not None:
                given[name] = number
    plain = NcclTestOptions()
    smallest = max(4, given.get("-b", plain.smallest))
    return NcclTestOptions(
        smallest=smallest,
        largest=max(smallest, given.get("-e", plain.largest)),
        factor=max(2, given.get("-f", plain.factor)),
        gpus=max(1, given.get("-g", plain.gpus)),
        iterations=max(1, given.get("-n", plain.iterations)),
        checks=bool(given.get("-c", 1)),
    )


def _number(text: str) -> int | None:
    unit = _UNITS.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    return int(digits) * unit if digits.isdigit() else None


_ABORTED = 134


class NcclFailure(msgspec.Struct, frozen=True):
    """The output and exit code of a process that fails."""

    text: str
    code: int


def no_remote_read(container: ContainerView) -> NcclFailure | None:
    """Return the failure of RDMA read on a device that has none: libfabric aborts the process."""
    kind = InstanceTable.load().find(container.instance_type)
    demands = container.environment.get("FI_EFA_USE_DEVICE_RDMA") == "1" and container.efa_interfaces
    if not demands or kind is None or kind.efa_reads_remotely:
        return None
    return NcclFailure(
        "FI_EFA_USE_DEVICE_RDMA=1 was set by user, but EFA device has no rdma-read capability.  Application will "
        f"abort().\n[{container.pod}:00033] *** Process received signal ***\n[{container.pod}:00033] Signal: Aborted "
        "(6)\n",
        _ABORTED,
    )


def closed_by_peer(pod: str, rank: int) -> str:
    """Return the failure of a rank whose peer has gone: it finds its connection closed."""
    return (
        f"{pod}:33:75 [0] socket.cc:46 NCCL WARN Net : Connection closed by remote peer\n"
        f"{pod}: Test NCCL failure common.cu:1005 'ncclRemoteError: A call failed possibly due to a network error or a "
        f"remote process exiting prematurely. / '\n .. {pod} pid 33 rank {rank}: Test failure common.cu:891\n"
    )


_START_SECONDS = 3.0
_WARMUP = 5
_MIB = 1 << 20
_RESERVED_MIB = 191.5
"""Memory of a device, taken by the driver and the context before the test queries the free memory."""
_KEPT = 1 << 30
"""The memory that the test leaves free; the rest is for three buffers."""
_VERSION = "2.26.2+cuda12.2"
_ELEMENT = 4
_ONLY_BUS = 3
"""The bus number of the only GPU of a g5."""
_TESTING = GpuLoad(99, 4096)
_IDLE = GpuLoad(0, 0)


def is_wanted_by(container: ContainerView) -> bool:
    """Return whether a container's command is nccl-tests' all-reduce."""
    return bool(container.argv) and posixpath.basename(container.argv[0]) == "all_reduce_perf"


def run(container: ContainerView) -> Program:
    """Test all sizes. Ends with 0, with 1 if a rank is lost, and aborts where EFA does."""
    rank = _Rank(container)
    problem = rank.first_problem()
    if problem:
        yield ProgramStep(_START_SECONDS, problem.text, is_error=True)
        return problem.code
    try:
        return (yield from rank.run())
    except PeerLost:
        yield ProgramStep(2.0, closed_by_peer(container.pod, rank.number), is_error=True, load=_IDLE)
        return 1


class _Rank:
    """A process of the group."""

    def __init__(self, container: ContainerView) -> None:
        known = container.environment
        self._container = container
        self._options: NcclTestOptions = options_of(container.argv[1:])
        self.number = int(known.get("OMPI_COMM_WORLD_RANK", "0"))
        self._size = int(known.get("OMPI_COMM_WORLD_SIZE", "1"))
        self._local = int(known.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
        self._on_node = int(known.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
        self._gpu: GpuModel = model_of(container.instance_type)
        self._fabric: Fabric = fabric_of(container, ranks=self._size)
        self._random = random.Random(container.seed)
        self._debug = known.get("NCCL_DEBUG", "").upper()

    def first_problem(self) -> NcclFailure | None:
        """Return the failure that ends the process before anything is measured."""
        return no_remote_read(self._container)

    def run(self) -> Program:
        """Run from the rendezvous of the ranks to the footer."""
        known = self._container.environment
        group = f"{self._container.namespace}/{known.get('OMPI_MCA_orte_hnp_uri', self._container.pod)}/nccl-tests"
        yield ProgramStep(_START_SECONDS, rendezvous=Rendezvous(group, self._size), load=_IDLE)
        largest = min(self._options.largest, self._limit())
        if self.number == 0:
            yield ProgramStep(0.2, self._header(largest))
        yield from self._connect()
        if self.number == 0:
            yield ProgramStep(0.5, _HEADS, load=_TESTING)
        return (yield from self._measure(largest))

    def _limit(self) -> int:
        """Return the largest message that fits three times into a device."""
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
        """Print NCCL's start, as far as NCCL_DEBUG sets."""
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
            yield ProgramStep(1.0, "".join(line + "\n" for line in lines))
        elif self.number == 0 and self._debug in ("VERSION", "WARN"):
            yield ProgramStep(1.0, f"NCCL version {_VERSION}\n")
        else:
            yield ProgramStep(1.0)
        return 0

    def _measure(self, largest: int) -> Program:
        """Measure row by row. All ranks take the time of a row; rank 0 writes it."""
        options = self._options
        bandwidths: list[float] = []
        size = options.smallest
        while size <= largest:
            times = [self._fabric.time_us(size) * self._random.uniform(0.985, 1.015) for _ in ("out", "in")]
            seconds = sum(times) * (options.iterations + _WARMUP) / 1e6
            yield ProgramStep(seconds, self._row(size, times) if self.number == 0 else "", load=_TESTING)
            bandwidths += [self._fabric.bus_bandwidth(size, time) for time in times]
            size *= options.factor
        if self.number == 0:
            average = sum(bandwidths) / max(1, len(bandwidths))
            yield ProgramStep(
                0.2, f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {average:g}\n#\n", load=_IDLE
            )
        return 0

    def _row(self, size: int, times: list[float]) -> str:
        count = "0" if self._options.checks else "N/A"
        ways = ""
        for time in times:
            speed, bus = size / time / 1e3, self._fabric.bus_bandwidth(size, time)
            ways += f" {_time_text(time):>8} {speed:>7.2f} {bus:>7.2f} {count:>6}"
        return f"{size:>12}  {size // _ELEMENT:>12}     float     sum      -1{ways}\n"


def _time_text(time_us: float) -> str:
    """Return four digits or more, as the tool prints a time."""
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
