"""Llama-2's training in small under a real Ray: an actor on each Trainium node, gradients averaged over gloo.

Ray Train itself is not in the image: an actor is called as its workers are, and prints what the real script prints. One
actor stands for the 32 workers of a node and holds all its NeuronCores, which Ray counts by neuron-ls.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Any

import ray

CORES = 32
_GRAPHS = 4
_WHOLE_SECONDS = 40.0
_SHAPES = ("num_nodes", "tensor_parallel_size", "batch_size", "seq_len", "num_layers", "grad_accum_usteps")


def arguments() -> argparse.Namespace:
    """Read the arguments of the real script, with its defaults."""
    parser = argparse.ArgumentParser()
    for name, default in {
        "num_nodes": 2, "tensor_parallel_size": 8, "batch_size": 1, "grad_accum_usteps": 32, "steps_this_run": 10_000,
        "max_steps": 10_000, "warmup_steps": 100, "seed": 12_349, "seq_len": 4096, "logging_interval": 10,
        "num_layers": -1, "loading_step": -1, "checkpoint_freq": 100_000, "num_kept_checkpoint": -1, "kv_replicator": 1,
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--lr", type=float, default=3e-4)
    for name, default in {
        "checkpoint_dir": "", "data_dir": "/shared/wikicorpus_llama2_7B_tokenized_4k",
        "output_dir": "/shared/llama2_output",
        "metrics_file": "results.json", "sequence_parallel_enabled": "True", "selective_checkpoint_enabled": "True",
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", default=default)
    for name in (
        "neuron_parallel_compile", "resume_ckpt", "print_grad_norm", "use_mix_precision", "use_zero_1", "qkv_linear",
    ):  # fmt: skip
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


def say(text: str) -> None:
    """Print a line in one piece."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class RayTrainWorker:
    """One rank; its name is what Ray prints before its lines."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def place(self) -> tuple[str, int, int]:
        """Return address and pid, and a port that is free here."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return ray.util.get_node_ip_address(), os.getpid(), probe.getsockname()[1]

    def run(self, given: argparse.Namespace, master: tuple[str, int]) -> dict[str, Any]:
        """Train, or with `--neuron_parallel_compile` trace and compile. Returns what goes to the metrics file."""
        import torch
        from eksml_cpu import neuron

        torch.set_num_threads(1)
        address = f"tcp://{master[0]}:{master[1]}"
        torch.distributed.init_process_group("gloo", address, rank=self._rank, world_size=given.num_nodes)
        say(f"Setting up process group for: {address} [rank={self._rank}]")
        if not Path(given.data_dir, "dataset_info.json").is_file():
            raise FileNotFoundError(f"Directory {given.data_dir} not found")
        if self._rank == 0:
            say("--------TRAINING CONFIG----------")
            say("\n".join(f"{name}: {value}" for name, value in sorted(vars(given).items())))
            say("--------MODEL CONFIG----------")
        paths = neuron.graphs({name: str(getattr(given, name)) for name in _SHAPES}, _GRAPHS)
        if given.neuron_parallel_compile:
            say("Extracting graphs for ahead-of-time parallel compilation. No compilation is done")
            given.steps_this_run, given.checkpoint_dir = 10, ""
            Training(given, self._rank, pace=0.05, is_quiet=True).run()
            if self._rank == 0:
                say("Compiling extracted graphs on local rank0 worker")
                neuron.compile_graphs(paths, say=say)
                say("\n".join(neuron.summary(len(paths))))
            return {}
        if self._rank == 0:
            neuron.compile_graphs(paths, say=say)
        pace = float(os.environ.get("EKSML_STEP_SECONDS") or min(1.0, max(0.05, _WHOLE_SECONDS / given.steps_this_run)))
        return Training(given, self._rank, pace=pace).run()


class Training:
    """The steps of one rank.

    Args:
        given: The script's arguments.
        rank: Of the process group, which is there.
        pace: Seconds that a step takes at least.
        is_quiet: Prints no steps and writes no curve.
    """

    def __init__(self, given: argparse.Namespace, rank: int, *, pace: float, is_quiet: bool = False) -> None:
        import numpy
        import torch
        from eksml_cpu.model import TinyModel, windows

        self._given, self._rank, self._pace, self._says = given, rank, pace, rank == 0 and not is_quiet
        torch.manual_seed(given.seed)
        self._model = TinyModel()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=given.lr)
        self.step = given.loading_step if given.resume_ckpt else 0
        self.batch = given.batch_size * given.grad_accum_usteps * CORES * given.num_nodes // given.tensor_parallel_size
        found = sorted(Path(given.data_dir).glob("data-*.arrow"))
        tokens = numpy.concatenate([numpy.fromfile(path, numpy.uint16) for path in found]) % 256
        share = max(1, self.batch // given.num_nodes)
        self._rows = windows(tokens, batch=share, count=given.steps_this_run, seed=given.seed + rank + self.step * 1000)
        if given.resume_ckpt:
            self._load()

    def run(self) -> dict[str, Any]:
        """Make all steps. Returns the numbers of the last one."""
        given, events, began = self._given, self._events(), time.monotonic()
        if self._says:
            say(f"Epoch 0 begin {time.asctime()}")
        loss, rate, first = math.nan, 0.0, self.step
        while self.step < max(given.steps_this_run, first + 1):
            started = time.monotonic()
            loss, norm = self._once(next(self._rows))
            time.sleep(max(0.0, started + self._pace - time.monotonic()))
            rate = self.batch / (time.monotonic() - started)
            if self._says and self.step % max(1, given.logging_interval) == 0:
                self._log(loss, rate, norm)
            if events:
                events.add_scalar("step loss", loss, self.step)
                events.add_scalar("learning rate", self._rate(self.step), self.step)
            if given.checkpoint_dir and given.checkpoint_freq > 0 and self.step % given.checkpoint_freq == 0:
                self._save()
        if self._says:
            spent = time.monotonic() - began
            end = f"Epoch 0 step {self.step} end {time.asctime()} loss {loss} perf {rate:.2f} seq/sec "
            micro = self.step * given.grad_accum_usteps
            say(f"{end}(at train microstep {micro} time {spent:.0f} from beginning time 0)")
            events.close()
        return {"throughput": rate, "loss": loss, "steps": self.step, "global_batch": self.batch}

    def _once(self, rows: Any) -> tuple[float, float]:
        """Make a step. Returns the mean loss of all ranks, and the norm of the gradients."""
        import torch

        ranks = torch.distributed.get_world_size()
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate(self.step)
        loss = self._model.loss(rows)
        self._optimizer.zero_grad()
        loss.backward()
        flat = torch.cat([weight.grad.flatten() for weight in self._model.parameters()] + [loss.detach().reshape(1)])
        torch.distributed.all_reduce(flat)
        flat /= ranks
        place = 0
        for weight in self._model.parameters():
            weight.grad.copy_(flat[place : place + weight.numel()].view_as(weight))
            place += weight.numel()
        norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        self.step += 1
        return float(flat[-1]), float(norm)

    def _rate(self, step: int) -> float:
        """`get_linear_schedule_with_warmup` of transformers."""
        given = self._given
        if step < given.warmup_steps:
            return given.lr * step / given.warmup_steps
        return given.lr * max(0.0, (given.max_steps - step) / max(1, given.max_steps - given.warmup_steps))

    def _log(self, loss: float, rate: float, norm: float) -> None:
        shown = f" grad-norm : {norm:.4f}" if self._given.print_grad_norm else ""
        values = f"step_loss : {loss:.4f} learning_rate : {self._rate(self.step):.2e} throughput : {rate:.2f}{shown}"
        say(f"LOG {time.asctime()} - (0, {self.step}) {values}")

    def _events(self) -> Any:
        if not self._says:
            return None
        from torch.utils.tensorboard import SummaryWriter

        name = f"neuron_tblogs_{time.strftime('%m%d%y_%H%M')}_bf16_w{self._given.num_nodes * CORES}_lr{self._given.lr}"
        return SummaryWriter(f"{self._given.output_dir}/{name}")

    def _load(self) -> None:
        import torch

        folder = Path(self._given.checkpoint_dir, f"step_{self.step}")
        if self._says:
            say(f"loading checkpoint from {folder.name}")
        name = "dp_rank_00_tp_rank_00_pp_rank_00.pt"
        self._model.load_state_dict(torch.load(folder / "model" / name))
        self._optimizer.load_state_dict(torch.load(folder / "optim" / name))
        if self._says:
            say("loading checkpoint done")

    def _save(self) -> None:
        """Write a checkpoint, whose file `done` comes last, and remove the oldest."""
        import torch

        torch.distributed.barrier()
        if self._rank:
            return
        given, name = self._given, "dp_rank_00_tp_rank_00_pp_rank_00.pt"
        folder = Path(given.checkpoint_dir, f"step_{self.step}")
        for part, state in (("model", self._model.state_dict()), ("optim", self._optimizer.state_dict())):
            (folder / part).mkdir(parents=True, exist_ok=True)
            torch.save(state, folder / part / name)
        torch.save({"last_epoch": self.step}, folder / "scheduler.pt")
        torch.save({"total_steps": self.step, "epoch": 0}, folder / "user_content.pt")
        (folder / "done").write_text("1", encoding="ascii")
        say(f"synced saving of checkpoint step_{self.step} completed")
        whole = sorted(Path(given.checkpoint_dir).glob("step_*/done"), key=lambda path: path.stat().st_mtime)
        for old in whole[: -given.num_kept_checkpoint] if given.num_kept_checkpoint > 0 else []:
            old.unlink()
            shutil.rmtree(old.parent)


def main() -> None:
    """Start a worker on each node and wait for all of them."""
    given = arguments()
    ray.init(log_to_driver=True)
    remote = ray.remote(num_cpus=1, resources={"neuron_cores": CORES})(RayTrainWorker)
    workers = [remote.remote(rank) for rank in range(given.num_nodes)]
    while not ray.wait([worker.place.remote() for worker in workers], num_returns=len(workers), timeout=60)[0]:
        there = ray.cluster_resources().get("neuron_cores", 0.0)
        asked = given.num_nodes * CORES
        say(f"WARNING You asked for {asked}.0 neuron_cores, but the cluster only has {there} available.")
    places = ray.get([worker.place.remote() for worker in workers])
    say("Started distributed worker processes: ")
    for rank, (address, pid, _) in enumerate(places):
        say(f"- (ip={address}, pid={pid}) world_rank={rank}, local_rank=0, node_rank={rank}")
    master = (places[0][0], places[0][2])
    results = ray.get([worker.run.remote(given, master) for worker in workers])
    if results[0]:
        Path(given.metrics_file).write_text(json.dumps(results[0]), encoding="utf-8")
        say(f"Writing data to the provided results file: {given.metrics_file}")
    say("Training completed after 0 iterations.")


if __name__ == "__main__":
    main()
