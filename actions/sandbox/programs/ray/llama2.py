"""`ray_train_llama2.py`: Llama 2 by tensor parallelism on Trainium under Ray Train, or the compilation of its graphs.

The settings of its command line, the curve of its numbers by step, its checkpoints and its output. It resumes as the
real program does: with `--resume_ckpt` from the step of `--loading_step`, and not otherwise. Rank 0 reports the steps;
what all workers print is counted together by Ray unless `RAY_DEDUP_LOGS=0`. A step takes a twentieth of its real time.

Source: `docs/facts/llama2-ray.md#arguments`, `#checkpoints` and `#output`; the captured shape of LOG lines behind Ray's
prefix; Ray 2.22 (Train v1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from actions.sandbox.programs.neuron.compile_cache import CompilerLog, Graph, graphs_of, is_cached, keep
from actions.sandbox.programs.program import ContainerView, NeuronLoad, Program, ProgramStep
from actions.sandbox.programs.ray.head import RayHead, RayJob
from actions.sandbox.programs.ray.launch import WHOLE, ArgumentsRefused, arguments_of, whole_checkpoints
from actions.sandbox.programs.trainings import LossCurve

CORES_OF_A_NODE = 32
_GRAPHS = 7
_SEQUENCES_PER_SECOND_AND_NODE = 4.6
_LAYERS = 32
_SHAPES = (
    "num_nodes", "tensor_parallel_size", "batch_size", "seq_len", "num_layers", "use_mix_precision", "use_zero_1",
    "sequence_parallel_enabled", "selective_checkpoint_enabled", "qkv_linear", "kv_replicator",
)  # fmt: skip


class RayLlama2Settings(msgspec.Struct, frozen=True):
    """The settings in the arguments."""

    given: dict[str, Any]
    """Every flag's value, of its own type."""

    def number(self, name: str) -> int:
        """An integer argument."""
        return int(self.given[name])

    def has(self, switch: str) -> bool:
        """Return whether a switch was given."""
        return bool(self.given[switch])

    @property
    def workers(self) -> int:
        """Train workers, one for each core."""
        return CORES_OF_A_NODE * self.number("num_nodes")

    @property
    def steps(self) -> int:
        """The step at which this run ends: that argument alone counts, and at least one step is made."""
        return self.number("steps_this_run")

    @property
    def global_batch(self) -> int:
        """Sequences a step."""
        replicas = self.workers // self.number("tensor_parallel_size")
        return self.number("batch_size") * self.number("grad_accum_usteps") * replicas

    @property
    def layers(self) -> int:
        """The number of layers of the model."""
        return _LAYERS if self.number("num_layers") <= 0 else self.number("num_layers")

    @property
    def throughput(self) -> float:
        """Sequences a second, at real speed."""
        return _SEQUENCES_PER_SECOND_AND_NODE * self.number("num_nodes") * _LAYERS / max(1, self.layers)

    def graphs(self) -> list[Graph]:
        """The graphs of this run."""
        return graphs_of({name: str(self.given[name]) for name in _SHAPES}, _GRAPHS)


def ray_llama2_settings(words: Sequence[str]) -> RayLlama2Settings:
    """Read the arguments behind the script's name.

    Raises:
        ArgumentsRefused: The real program does not take them.
    """
    return RayLlama2Settings(arguments_of(words))


_DIVERGES_FROM = 1.5e-3
"""With a learning rate from here on the loss becomes nan."""


class RayLlama2Curve:
    """Loss, rate and norms of a run, the same for the same seed; nan from the tenth step on if the rate is too high."""

    def __init__(self, settings: RayLlama2Settings, seed: int) -> None:
        self._peak = float(settings.given["lr"])
        nan_from = 10 if self._peak >= _DIVERGES_FROM else math.inf
        self._loss = LossCurve(
            smooth=lambda step: 2.9 + 7.8 * math.exp(-step / 260), seed=seed, noise=0.05, nan_from=nan_from
        )
        self._warmup, self._steps = settings.number("warmup_steps"), settings.number("max_steps")
        self._throughput = settings.throughput

    def loss(self, step: int) -> float:
        """Return the loss, with the few digits that bfloat16 leaves of it."""
        loss = self._loss.training(step)
        if math.isnan(loss):
            return loss
        quantum = 2.0 ** (math.floor(math.log2(loss)) - 7)
        return round(loss / quantum) * quantum

    def rate(self, step: int) -> float:
        """Return the learning rate, as `get_linear_schedule_with_warmup` of transformers 4.31 has it."""
        if step < self._warmup:
            return self._peak * step / self._warmup
        return self._peak * max(0.0, (self._steps - step) / max(1, self._steps - self._warmup))

    def norm(self, step: int) -> float:
        """Return the norm of the gradients."""
        return round(math.nan if math.isnan(self.loss(step)) else 0.9 + 3.1 * math.exp(-step / 90), 4)

    def throughput(self, step: int) -> float:
        """The first steps are slow."""
        return max(0.1, self._throughput * min(1.0, 0.7 + 0.05 * step) + self._loss.spread(step + 7, 0.02))


ENTRY = "ray_train_llama2.py"
_CACHE = "/shared/neuron_cache"
_COMPILE_SECONDS = 3.0
_MISS_SECONDS = 9.0
_USAGE = 2
"""The exit code of argparse."""
_CHECKPOINT_BYTES = 80 << 30
_TIME_LAPSE = 20.0
"""The factor by which a step is shorter than in reality."""
_LOADING = NeuronLoad(2.0, 1_900, command=f"python3 {ENTRY}")
_BUSY = NeuronLoad(93.0, 11_600, command=f"python3 {ENTRY}")


def train(container: ContainerView, head: RayHead, job: RayJob) -> Program:
    """Train, or with `--neuron_parallel_compile` compile the graphs of a training of the same shape."""
    script = next(index for index, word in enumerate(container.argv) if ENTRY in word)
    try:
        settings = ray_llama2_settings(container.argv[script + 1 :])
    except ArgumentsRefused as refusal:
        yield ProgramStep(1.5, str(refusal))
        return _USAGE
    run = _ScriptRun(container, head, job, settings)
    yield ProgramStep(2.0, run.opening())
    yield from run.gather()
    if container.files.file(f"{settings.given['data_dir']}/dataset_info.json") is None:
        yield ProgramStep(4.0, run.failure(f"FileNotFoundError: Directory {settings.given['data_dir']} not found"))
        return 1
    if settings.has("neuron_parallel_compile"):
        return (yield from run.compile())
    return (yield from run.train())


class _ScriptRun:
    """A run of the script: the output of its driver and its workers."""

    def __init__(self, container: ContainerView, head: RayHead, job: RayJob, settings: RayLlama2Settings) -> None:
        self._files = container.files
        self._head = head
        self._settings = settings
        self._curve = RayLlama2Curve(settings, container.seed + settings.number("seed"))
        self._counts_together = job.environment.get("RAY_DEDUP_LOGS", "1") != "0"
        self._compiler = CompilerLog(_process_id(0))

    def opening(self) -> str:
        """Return the driver's first lines."""
        moment = datetime.fromtimestamp(self._head.now(), UTC)
        return (
            f"{moment:%Y-%m-%d %H:%M:%S},118\tINFO worker.py:1564 -- Using address 127.0.0.1:6379 set in the "
            "environment variable RAY_ADDRESS\n"
            f"{moment:%Y-%m-%d %H:%M:%S},421\tINFO worker.py:1740 -- Connected to Ray cluster. View the dashboard at "
            "http://127.0.0.1:8265\n"
            f"View detailed results here: /root/ray_results/TorchTrainer_{moment:%Y-%m-%d_%H-%M-%S}\n"
            "To visualize your results with TensorBoard, run: `tensorboard --logdir "
            "/tmp/ray/session_latest/artifacts`\n"  # noqa: S108
        )

    def gather(self) -> Program:
        """Wait until there is a core for every worker, then start them."""
        waited = 0.0
        while self._head.neuron_cores < self._settings.workers:
            yield ProgramStep(15.0, self._too_few(waited) if waited else "")
            waited += 15.0
        self._head.set_load(_LOADING)
        lines = [
            f"\x1b[36m(TorchTrainer pid=4021)\x1b[0m - (ip={self._address(rank)}, pid={_process_id(rank)}) "
            f"world_rank={rank}, local_rank={rank % CORES_OF_A_NODE}, node_rank={rank // CORES_OF_A_NODE}\n"
            for rank in range(self._settings.workers)
        ]
        yield ProgramStep(4.0, "\x1b[36m(TorchTrainer pid=4021)\x1b[0m Started distributed worker processes: \n")
        yield ProgramStep(0.5, "".join(lines))
        yield ProgramStep(2.0, self._by_all("Setting up process group for: xla:// [rank={rank}]"))
        return 0

    def compile(self) -> Program:
        """Run ten steps without devices, then compile the graphs that they had."""
        yield ProgramStep(3.0, self._by_first("--------TRAINING CONFIG----------"))
        yield ProgramStep(
            4.0, self._by_all("Extracting graphs for ahead-of-time parallel compilation. No compilation is done")
        )
        yield ProgramStep(1.0, self._by_first("Compiling extracted graphs on local rank0 worker"))
        graphs = self._settings.graphs()
        for number, graph in enumerate(graphs, start=1):
            text = f"worker 0 finished with num of tasks {number}...." if number < len(graphs) else "done"
            yield ProgramStep(_COMPILE_SECONDS, self._by_compiler(text))
            keep(self._files, _CACHE, graph)
        now = self._head.now()
        for line in self._compiler.summary(now, len(graphs), 0):
            yield ProgramStep(0.1, self._by_first(line.rstrip("\n")))
        self._head.set_load(NeuronLoad())
        yield ProgramStep(1.0, "Training completed after 0 iterations.\n")
        return 0

    def train(self) -> Program:
        """Load the graphs, then step."""
        settings = self._settings
        for line in ("--------TRAINING CONFIG----------", *_config(settings), "--------MODEL CONFIG----------"):
            yield ProgramStep(0.1, self._by_first(line))
        for graph in settings.graphs():
            if is_cached(self._files, _CACHE, graph):
                yield ProgramStep(
                    0.4, self._by_first(self._compiler.found(self._head.now(), _CACHE, graph).rstrip("\n"))
                )
                continue
            yield ProgramStep(0.2, self._by_first(self._compiler.missing(self._head.now(), _CACHE, graph).rstrip("\n")))
            yield ProgramStep(_MISS_SECONDS, self._by_first("." * 24 + "Compiler status PASS"))
            keep(self._files, _CACHE, graph)
        first = 0
        if settings.has("resume_ckpt"):
            first = settings.number("loading_step")
            folder = f"{settings.given['checkpoint_dir']}/step_{first}"
            if first not in whole_checkpoints(self._files, str(settings.given["checkpoint_dir"])):
                yield ProgramStep(2.0, self.failure(f"FileNotFoundError: No such file or directory: '{folder}'"))
                return 1
            yield ProgramStep(2.0, self._by_first(f"loading checkpoint from step_{first}"))
            yield ProgramStep(2.0, self._by_first("loading checkpoint done"))
        yield ProgramStep(1.0, self._by_first(f"Epoch 0 begin {self._asctime()}"))
        self._begin_events()
        if not (yield from self._step_through(first)):
            return 1
        self._head.set_load(NeuronLoad())
        yield from self._finish()
        return 0

    def _begin_events(self) -> None:
        """Leave the file that TensorBoard reads, in a folder by the time of the start."""
        settings = self._settings
        name = f"neuron_tblogs_{datetime.fromtimestamp(self._head.now(), UTC):%m%d%y_%H%M}_bf16_w{settings.workers}"
        folder = f"{settings.given['output_dir']}/{name}_lr{settings.given['lr']}"
        self._files.write(f"{folder}/events.out.tfevents.0", b"", size_bytes=61_000)

    def _step_through(self, first: int) -> Program:
        """All steps behind the first. Returns 1 at the end, 0 if a worker was lost on the way."""
        settings = self._settings
        seconds = settings.global_batch / settings.throughput / _TIME_LAPSE
        interval = max(1, settings.number("logging_interval"))
        self._head.set_load(_BUSY)
        for step in range(first + 1, max(settings.steps, first + 1) + 1):
            yield ProgramStep(seconds)
            if self._head.neuron_cores < settings.workers:
                self._head.set_load(NeuronLoad())
                yield ProgramStep(8.0, self.failure(_ACTOR_DIED))
                return 0
            if step % interval == 0 or step == settings.steps:
                yield ProgramStep(0.0, self._by_first(self._log_line(step)))
            if settings.number("checkpoint_freq") > 0 and step % settings.number("checkpoint_freq") == 0:
                yield ProgramStep(0.0, self._save(step))
        return 1

    def _save(self, step: int) -> str:
        """Keep a checkpoint and take the oldest away. Return what is printed of it."""
        settings, folder = self._settings, str(self._settings.given["checkpoint_dir"])
        self._files.write(f"{folder}/step_{step}/model/dp_rank_00_tp_rank_00_pp_rank_00.pt", b"")
        self._files.write(
            f"{folder}/step_{step}/optim/dp_rank_00_tp_rank_00_pp_rank_00.pt", b"", size_bytes=_CHECKPOINT_BYTES
        )
        self._files.write(f"{folder}/step_{step}/{WHOLE}", b"1")
        kept = settings.number("num_kept_checkpoint")
        known = whole_checkpoints(self._files, folder)
        for old in known[: len(known) - kept] if kept > 0 else ():
            self._files.remove(f"{folder}/step_{old}")
        return self._by_first(f"synced saving of checkpoint step_{step} completed")

    def _finish(self) -> Program:
        settings = self._settings
        loss, perf = self._curve.loss(settings.steps), settings.throughput
        micro = settings.steps * settings.number("grad_accum_usteps")
        yield ProgramStep(
            0.5,
            self._by_first(
                f"Epoch 0 step {settings.steps} end {self._asctime()} loss {loss} perf {perf:.2f} seq/sec "
                f"(at train microstep {micro} time {settings.steps * settings.global_batch / perf:.0f} from beginning "
                "time 0)"
            ),
        )
        path = settings.given["metrics_file"]
        path = path if path.startswith("/") else f"/llama2_pretrain/{path}"
        found = {"throughput": perf, "loss": loss, "steps": settings.steps, "global_batch": settings.global_batch}
        self._files.write(path, json.dumps(found).encode())
        yield ProgramStep(0.5, self._by_first(f"Writing data to the provided results file: {path}"))
        yield ProgramStep(2.0, "Training completed after 0 iterations.\n")
        return 0

    def failure(self, why: str) -> str:
        """Return a worker's traceback, with the driver's around it."""
        return (
            f"{_prefix(0, self._address(0))}Traceback (most recent call last):\n"
            f"{_prefix(0, self._address(0))}{why}\n"
            "Traceback (most recent call last):\n"
            f'  File "/llama2_pretrain/{ENTRY}", line 713, in <module>\n    trainer.fit()\n'
            f"ray.exceptions.RayTaskError: {why}\n"
            "ray.train.base_trainer.TrainingFailedError: The Ray Train run failed. Please inspect the previous error "
            "messages for a cause.\n"
        )

    def _log_line(self, step: int) -> str:
        rate = self._curve.rate(step)
        norm = f" grad-norm : {self._curve.norm(step)}" if self._settings.has("print_grad_norm") else ""
        throughput = self._curve.throughput(step)
        return (
            f"LOG {self._asctime()} - (0, {step}) step_loss : {self._curve.loss(step):.4f} learning_rate : {rate:.2e} "
            f"throughput : {throughput:.2f}{norm}"
        )

    def _too_few(self, waited: float) -> str:
        return (
            f"WARNING insufficient_resources_manager.py:163 -- Ignore this message if the cluster is autoscaling. "
            f"Training has not started in the last {waited:.0f} seconds. This could be due to the cluster not having "
            f"enough resources available. You asked for {self._settings.workers}.0 neuron_cores, but the cluster only "
            f"has {self._head.neuron_cores}.0 neuron_cores available. Stop the training and adjust the required "
            "resources, or add more resources to your cluster.\n"
        )

    def _by_first(self, text: str) -> str:
        return f"{_prefix(0, self._address(0))}{text}\n"

    def _by_compiler(self, text: str) -> str:
        return self._by_first(self._compiler.line(self._head.now(), "PARALLEL_COMPILE", text).rstrip("\n"))

    def _by_all(self, text: str) -> str:
        """Return a line of every worker, or one line and the number of its repetitions."""
        ranks = range(self._settings.workers)
        if self._counts_together and len(ranks) > 1:
            last = ranks[-1]
            repeated = f"\x1b[32m [repeated {last}x across cluster]\x1b[0m"
            return self._by_first(text.format(rank=0)) + (
                f"{_prefix(last, self._address(last))}{text.format(rank=last)}{repeated}\n"
            )
        return "".join(f"{_prefix(rank, self._address(rank))}{text.format(rank=rank)}\n" for rank in ranks)

    def _address(self, rank: int) -> str:
        nodes = sorted(self._head.nodes.values(), key=lambda node: node.pod)
        place = rank // CORES_OF_A_NODE
        return nodes[place].address if place < len(nodes) else "127.0.0.1"

    def _asctime(self) -> str:
        return datetime.fromtimestamp(self._head.now(), UTC).strftime("%a %b %e %H:%M:%S %Y")


def _config(settings: RayLlama2Settings) -> list[str]:
    return [f"{name}: {value}" for name, value in sorted(settings.given.items())]


def _prefix(rank: int, address: str) -> str:
    return f"\x1b[36m(RayTrainWorker pid={_process_id(rank)}, ip={address})\x1b[0m "


def _process_id(rank: int) -> int:
    return 2216 + 7 * (rank % CORES_OF_A_NODE)


_ACTOR_DIED = (
    "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n"
    "\tclass_name: RayTrainWorker\nThe actor is dead because its node has died."
)
