"""`neuron_parallel_compile` around the training: graphs are traced, compiled in parallel, kept in the cache.

The sandbox's compiler takes seconds for what takes minutes.

Source: AWS Neuron SDK 2.18, neuron_parallel_compile; totals as the guide of the system shows them.
"""

from __future__ import annotations

from actions.sandbox.workloads.neuron_cache import CompilerLog, Graph, graphs_of, is_cached, keep
from actions.sandbox.workloads.neuronx_nemo import CACHE, LOADED, Node
from actions.sandbox.workloads.program import NeuronLoad, Program, Step

GRAPHS = 22
_TRACE_SECONDS = 8.0
_COMPILE_SECONDS = 0.7
"""For each graph."""
_TRACED_STEPS = 4
_PROCESS_ID = 2101


def graphs(node: Node) -> list[Graph]:
    """What the training runs; other for another number of nodes, batch, length, parallelism or precision."""
    known = node.choices
    shape = {
        "nodes": str(node.nodes),
        "batch": f"{node.batch}/{node.micro_batch}",
        "length": str(known.seq_length),
        "parallel": f"{known.tensor_parallel}x{known.pipeline_parallel}",
        "precision": known.precision,
    }
    return graphs_of(shape, GRAPHS)


def is_foreign(node: Node) -> bool:
    """Whether the cache holds graphs, but none of this run."""
    files = node.container.files
    return bool(files.walk(CACHE)) and not any(is_cached(files, CACHE, graph) for graph in graphs(node))


def compile_graphs(node: Node) -> Program:
    """Trace and compile all graphs. Ends with 0."""
    log = _Clocked(node.container.started_at + 8.0)
    yield log.line(1.0, "NEURON_CACHE", f"Compile cache path: {CACHE}")
    yield log.line(0.2, "NEURON_PARALLEL_COMPILE", "Running trial run (add option to terminate trial run early)")
    for step in range(_TRACED_STEPS):
        bar = f"\rEpoch 0:   0%|          | {step + 1}/{_TRACED_STEPS + 1} [00:{step * 3 + 3:02d}<?, loss=0, v_num=]"
        yield log.pause(_TRACE_SECONDS / _TRACED_STEPS, bar if node.rank == 0 else "", load=LOADED)
    yield log.pause(0.5, "\n" if node.rank == 0 else "")
    yield log.line(0.0, "NEURON_PARALLEL_COMPILE", "Starting parallel compilation of the extracted graphs")
    yield from _compile(node, log, _COMPILE_SECONDS)
    for line in log.compiler.summary(log.now, GRAPHS, 0):
        yield Step(0.2, line)
    yield Step(0.5, load=NeuronLoad())
    return 0


def compile_missing(node: Node) -> Program:
    """What a training does first: compile what is not in the cache, while all devices wait."""
    return (yield from _compile(node, _Clocked(node.container.started_at + 8.0), 2 * _COMPILE_SECONDS))


def _compile(node: Node, log: _Clocked, seconds: float) -> Program:
    """Go through the graphs; the first node puts them into the cache, which all of them see."""
    for graph in graphs(node):
        if is_cached(node.container.files, CACHE, graph):
            yield log.pause(0.05, log.compiler.found(log.now, CACHE, graph))
            continue
        yield log.pause(0.1, log.compiler.missing(log.now, CACHE, graph))
        yield log.pause(seconds, "Compiler status PASS\n")
        if node.rank == 0:
            keep(node.container.files, CACHE, graph)
    return 0


class _Clocked:
    """The compiler's log with the program's own time."""

    def __init__(self, began_at: float) -> None:
        self.now = began_at
        self.compiler = CompilerLog(_PROCESS_ID)

    def pause(self, seconds: float, text: str, *, load: NeuronLoad | None = None) -> Step:
        self.now += seconds
        return Step(seconds, text, load=load)

    def line(self, seconds: float, source: str, text: str) -> Step:
        self.now += seconds
        return Step(seconds, self.compiler.line(self.now, source, text))
