"""`neuron_parallel_compile` around the training: graphs are traced, compiled in parallel, kept in the cache.

The sandbox's compiler takes seconds for what takes minutes.

Source: AWS Neuron SDK 2.18, neuron_parallel_compile; totals as the guide of the system shows them.
"""

from __future__ import annotations

from datetime import UTC, datetime

from actions.sandbox.workloads.neuronx_nemo import CACHE, LOADED, Node
from actions.sandbox.workloads.program import NeuronLoad, Program, Step

GRAPHS = 22
_TRACE_SECONDS = 12.0
_COMPILE_SECONDS = 1.2
"""For each graph."""
_TRACED_STEPS = 4


def compile_graphs(node: Node) -> Program:
    """Trace and compile. Ends with 0, or 1 if a graph cannot be compiled."""
    log = _Log(node.container.started_at + 8.0)
    yield log.line(1.0, "NEURON_CACHE", f"Compile cache path: {CACHE}")
    yield log.line(0.2, "NEURON_PARALLEL_COMPILE", "Running trial run (add option to terminate trial run early)")
    for step in range(_TRACED_STEPS):
        yield Step(_TRACE_SECONDS / _TRACED_STEPS, load=LOADED)
        log.elapsed += _TRACE_SECONDS / _TRACED_STEPS
        if node.rank == 0:
            yield Step(
                0.0,
                f"\rEpoch 0:   0%|          | {step + 1}/{_TRACED_STEPS + 1} [00:{step * 3 + 3:02d}<?, loss=0, v_num=]",
            )
    yield Step(0.0, "\n" if node.rank == 0 else "")
    yield log.line(0.5, "NEURON_PARALLEL_COMPILE", "Starting parallel compilation of the extracted graphs")
    failed = 0
    for number in range(1, GRAPHS + 1):
        path = f"{node.modules}/graph{number:02d}"
        is_there = node.container.files.file(f"{path}/model.neff") is not None
        yield log.line(0.1 if is_there else _COMPILE_SECONDS, "NEURON_CC_WRAPPER", _outcome(path, is_there=is_there))
        if node.rank == 0 and not is_there:
            node.container.files.write(f"{path}/model.neff", b"", size_bytes=31_000_000)
    yield log.line(0.5, "PARALLEL_COMPILE", f"Total graphs: {GRAPHS}")
    yield log.line(0.0, "PARALLEL_COMPILE", f"Total successful compilations: {GRAPHS - failed}")
    yield log.line(0.0, "PARALLEL_COMPILE", f"Total failed compilations: {failed}")
    yield Step(0.5, load=NeuronLoad())
    return 0


def compile_missing(node: Node) -> Program:
    """What a training does that finds nothing in the cache: compile before the first step, while the devices wait."""
    log = _Log(node.container.started_at + 8.0)
    for number in range(1, GRAPHS + 1):
        path = f"{node.modules}/graph{number:02d}"
        if node.container.files.file(f"{path}/model.neff") is None:
            yield log.line(0.2, "NEURON_CC_WRAPPER", f"No candidate found under {path}.")
            yield log.line(2 * _COMPILE_SECONDS, "NEURON_CC_WRAPPER", _outcome(path, is_there=False))
            if node.rank == 0:
                node.container.files.write(f"{path}/model.neff", b"", size_bytes=31_000_000)
    return 0


def _outcome(path: str, *, is_there: bool) -> str:
    if is_there:
        return f"Using a cached neff at {path}/model.neff. Exiting with a successfully compiled graph."
    return f"Compilation Successfully Completed for {path}/model.hlo.pb"


class _Log:
    """The Neuron tools' logger prefix, with the program's own time in it."""

    def __init__(self, began_at: float) -> None:
        self._began_at = began_at
        self.elapsed = 0.0

    def line(self, after_seconds: float, source: str, text: str) -> Step:
        self.elapsed += after_seconds
        moment = datetime.fromtimestamp(self._began_at + self.elapsed, UTC)
        stamp = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond:06d}"
        return Step(after_seconds, f"{stamp}:  2101  INFO ||{source}||: {text}\n")
