"""The training of Llama-2-7B with neuronx-nemo-megatron, and `neuron_parallel_compile` around it.

Lightning's bar comes from the first process of the first node. `loss=nan` is what this system shows in good runs: the
reduced loss is the one that counts. Compilation traces graphs, compiles them in parallel and keeps them in the cache;
the sandbox's compiler takes seconds for what takes minutes.

Source: bars of neuronx-nemo-megatron's pull request 28 on EKS (four trn1.32xlarge, 14.05 s a step, 20,101 batches); AWS
Neuron SDK 2.18, neuron_parallel_compile; totals as the guide of the system shows them.
"""

from __future__ import annotations

import math
import random

import msgspec

from actions.sandbox.programs.checkpoints import PART, newest_step
from actions.sandbox.programs.neuron.compile_cache import CompilerLog, Graph, graphs_of, is_cached, keep
from actions.sandbox.programs.neuronx_nemo.node import (
    CACHE,
    COMMAND,
    LOADED,
    TrainingNode,
    fail,
    hang,
    logged,
    mixed_programs,
    node_of,
    start,
)
from actions.sandbox.programs.program import ContainerView, NeuronLoad, PeerLost, Program, ProgramStep
from actions.sandbox.programs.pytorch import CosineAnnealing, lightning_bar
from actions.sandbox.programs.trainings import LossCurve

GRAPHS = 22
_TRACE_SECONDS = 8.0
_COMPILE_SECONDS = 0.7
"""For each graph."""
_TRACED_STEPS = 4
_PROCESS_ID = 2101


def graphs(node: TrainingNode) -> list[Graph]:
    """Return the graphs of a training; they differ by number of nodes, batch, length, parallelism and precision."""
    known = node.choices
    shape = {
        "nodes": str(node.nodes),
        "batch": f"{node.batch}/{node.micro_batch}",
        "length": str(known.seq_length),
        "parallel": f"{known.tensor_parallel}x{known.pipeline_parallel}",
        "precision": known.precision,
    }
    return graphs_of(shape, GRAPHS)


def is_foreign(node: TrainingNode) -> bool:
    """Return whether the cache holds graphs, but none of this run."""
    files = node.container.files
    return bool(files.walk(CACHE)) and not any(is_cached(files, CACHE, graph) for graph in graphs(node))


def compile_graphs(node: TrainingNode) -> Program:
    """Trace and compile all graphs. Ends with 0."""
    log = _CompileLog(node.container.started_at + 8.0)
    yield log.line(1.0, "NEURON_CACHE", f"Compile cache path: {CACHE}")
    yield log.line(0.2, "NEURON_PARALLEL_COMPILE", "Running trial run (add option to terminate trial run early)")
    for step in range(_TRACED_STEPS):
        bar = f"\rEpoch 0:   0%|          | {step + 1}/{_TRACED_STEPS + 1} [00:{step * 3 + 3:02d}<?, loss=0, v_num=]"
        yield log.pause(_TRACE_SECONDS / _TRACED_STEPS, bar if node.rank == 0 else "", load=LOADED)
    yield log.pause(0.5, "\n" if node.rank == 0 else "")
    yield log.line(0.0, "NEURON_PARALLEL_COMPILE", "Starting parallel compilation of the extracted graphs")
    yield from _compile(node, log, _COMPILE_SECONDS)
    for line in log.compiler.summary(log.now, GRAPHS, 0):
        yield ProgramStep(0.2, line)
    yield ProgramStep(0.5, load=NeuronLoad())
    return 0


def compile_missing(node: TrainingNode) -> Program:
    """Compile the graphs that are not in the cache, while all devices wait: the first part of a training."""
    return (yield from _compile(node, _CompileLog(node.container.started_at + 8.0), 2 * _COMPILE_SECONDS))


def _compile(node: TrainingNode, log: _CompileLog, seconds: float) -> Program:
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


class _CompileLog:
    """The compiler's log with the program's own time."""

    def __init__(self, began_at: float) -> None:
        self.now = began_at
        self.compiler = CompilerLog(_PROCESS_ID)

    def pause(self, seconds: float, text: str, *, load: NeuronLoad | None = None) -> ProgramStep:
        self.now += seconds
        return ProgramStep(seconds, text, load=load)

    def line(self, seconds: float, source: str, text: str) -> ProgramStep:
        self.now += seconds
        return ProgramStep(seconds, self.compiler.line(self.now, source, text))


_STEP_SECONDS = 14.05
_STEP_BATCH = 256
_STEP_NODES = 4
_LEAST_STEP_SECONDS = 0.6
_HIGHEST_RATE = 3e-3
"""The highest learning rate: above it the run diverges."""
_TRAINING = NeuronLoad(71.0, 13_420, command=COMMAND)
_NO_SCRIPT = 127
_SAVE_SECONDS = 4.0
_RANK_FOLDER = "checkpoints/tp_rank_00_pp_rank_000"


def train(container: ContainerView) -> Program:
    """`llama_7b.sh` on one node: compile or train. Ends with 0, or as the first process that fails."""
    if "OMPI_COMM_WORLD_RANK" not in container.environment:
        yield ProgramStep(0.5, "Error: This script should be run via mpirun on EKS\n", is_error=True)
        return 1
    node = node_of(container)
    if node is None:
        yield ProgramStep(0.5, f"bash: {container.argv[0]}: No such file or directory\n", is_error=True)
        return _NO_SCRIPT
    return (yield from logged(node, _run(node)))


def _run(node: TrainingNode) -> Program:
    try:
        code = yield from start(node)
        if code:
            return code
        if node.is_compiling:
            return (yield from compile_graphs(node))
        moment = node.container.started_at + 9.0
        if is_foreign(node):
            return (yield from fail(mixed_programs(moment, 2101)))
        yield from compile_missing(node)
        return (yield from _epoch(node))
    except PeerLost:
        return (yield from hang(node.container.started_at + 200.0))


def _epoch(node: TrainingNode) -> Program:
    """Train to the end from the newest checkpoint; every node takes the same time, the first also draws and saves."""
    steps = int(node.container.environment.get("TRAIN_ITERS") or 20_000)
    first = newest_step(node.container.files, f"{node.folder}/{_RANK_FOLDER}") if node.choices.resumes else 0
    seconds = step_seconds(node.batch, node.nodes)
    curve = MegatronCurve(node, steps)
    if node.rank == 0:
        yield ProgramStep(1.0, _opening(node, first))
        node.container.files.write(f"{node.folder}/events.out.tfevents.0.{node.container.pod}", b"", size_bytes=88)
    elapsed = since_saved = 0.0
    for step in range(first, steps):
        elapsed, since_saved = elapsed + seconds, since_saved + seconds
        text = curve.drawing(step, first=first, elapsed_seconds=elapsed) if node.rank == 0 else ""
        yield ProgramStep(seconds, text, load=_TRAINING)
        if node.rank == 0 and since_saved >= node.choices.checkpoint_seconds:
            since_saved = 0.0
            yield from _save(node, step + 1)
    if node.rank == 0:
        if node.choices.saves_last:
            yield from _save(node, steps)
        yield ProgramStep(2.0, f"`Trainer.fit` stopped: `max_steps={steps}` reached.\n")
    yield ProgramStep(0.5, load=LOADED)
    return 0


def step_seconds(batch: int, nodes: int) -> float:
    """Return the seconds of a step, from the measured time of four nodes for 256 sequences."""
    return max(_LEAST_STEP_SECONDS, _STEP_SECONDS * batch / _STEP_BATCH * _STEP_NODES / nodes)


def _opening(node: TrainingNode, first: int) -> str:
    folder = f"Experiments will be logged at {node.folder}\n"
    resumed = (
        f"[NeMo I exp_manager:530] Resuming from {node.folder}/checkpoints/{_name(node, first)}\n" if first else ""
    )
    return (
        "GPU available: False, used: False\nTPU available: True, using: 32 TPU cores\n"
        f"{resumed}[NeMo I exp_manager:374] {folder}"
        "[NeMo I megatron_gpt_model:1190] Pipeline model parallel rank: 0, Tensor model parallel rank: 0, "
        "Number of model parameters on device: 8.44e+08. Total number of model parameters: 6.74e+09.\n"
    )


def _name(node: TrainingNode, step: int) -> str:
    """The name of a checkpoint."""
    last = "-last" if node.choices.saves_last else ""
    return f"megatron_llama--step={step}-consumed_samples={float(step * node.batch):.1f}{last}.ckpt"


def _save(node: TrainingNode, step: int) -> Program:
    """Write a checkpoint, and remove the one before when it is whole."""
    files, name = node.container.files, _name(node, step)
    folder = f"{node.folder}/{_RANK_FOLDER}"
    files.write(f"{folder}/{name}", PART)
    yield ProgramStep(_SAVE_SECONDS)
    files.write(f"{folder}/{name}", b"", size_bytes=80 << 30)
    for old in files.names(folder):
        if old != name:
            files.remove(f"{folder}/{old}")
    return 0


class _Metrics(msgspec.Struct, frozen=True):
    loss: float
    gradient: float
    parameters: float


class MegatronCurve:
    """The metrics of a run: the same seed and length give the same ones.

    Args:
        node: Whose choices and batch count.
        steps: Of the whole run.
    """

    def __init__(self, node: TrainingNode, steps: int) -> None:
        self._node = node
        self._steps = steps
        self._seconds = step_seconds(node.batch, node.nodes)
        self._decay = max(12.0, min(150.0, steps / 8))
        known = node.choices
        self._loss = LossCurve(
            smooth=lambda step: 2.1 + 8.9 / (1 + step / self._decay),
            seed=node.container.seed,
            noise=0.03,
            nan_from=max(5, steps // 8) if known.learning_rate > _HIGHEST_RATE else math.inf,
        )
        self._schedule = CosineAnnealing(
            known.learning_rate, known.min_learning_rate, known.warmup_steps, constant=0, steps=steps
        )

    def metrics(self, step: int) -> _Metrics:
        """Return the metrics of a step, zero-based."""
        loss = self._loss.training(step)
        if math.isnan(loss):
            return _Metrics(math.nan, math.nan, math.nan)
        warm = min(1.0, (step + 1) / max(1, self._node.choices.warmup_steps))
        gradient = (
            0.35 + 2.6 * math.exp(-step / (3 * self._decay)) * (0.5 + warm / 2) + abs(self._loss.spread(-step, 0.06))
        )
        return _Metrics(loss, gradient, 1552.0 + step // 40)

    def drawing(self, step: int, *, first: int, elapsed_seconds: float) -> str:
        """The redraw after a step, with the carriage return that starts it."""
        found = self.metrics(step)
        jitter = random.Random(step).uniform(-0.15, 0.15)
        rate = self._node.batch / self._seconds
        values: dict[str, float | str] = {
            "loss": "nan",
            "v_num": "",
            "reduced_train_loss": _rounded(found.loss),
            "lr": self._schedule.rate(step),
            "gradient_norm": _rounded(found.gradient),
            "parameter_norm": found.parameters,
            "global_step": float(step),
            "consumed_samples": float((step + 1) * self._node.batch),
            "throughput": round(rate + jitter, 1),
            "throughput_peak": round(rate + 0.2, 1),
        }
        total = self._steps + self._steps // 200 + 1
        drawn = lightning_bar(step + 1, total, first=first, elapsed_seconds=elapsed_seconds, metrics=values)
        return f"\r{drawn}" + ("\n" if (step + 1) % 10 == 0 or step + 1 == self._steps else "")


def _rounded(value: float) -> float:
    """To three digits, as bfloat16 has no more."""
    return value if math.isnan(value) else float(f"{value:.3g}")
