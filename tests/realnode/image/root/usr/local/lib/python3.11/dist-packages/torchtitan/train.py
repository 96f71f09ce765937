"""TorchTitan's training in small: torchrun's ranks, DDP over gloo, AdamW, its schedule, checkpoints, resume, its log.

Played are the model's size, with the memory that it needs of a GPU, and the pace (`EKSML_STEP_SECONDS`).
"""

from __future__ import annotations

import logging
import os
import resource
import shutil
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from eksml_cpu import corpus, transport
from eksml_cpu.memory import need_gpu_memory
from eksml_cpu.model import LENGTH, TinyModel, windows
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from torchtitan.lines import RECORD, size_line, step_line

_PARAMETERS = 8_030_261_248
_GIB_A_SEQUENCE = {"selective": 32.0, "full": 19.0}
"""Of activations at 8192 tokens; weights, gradients and two moments have 16 bytes a parameter, over all ranks."""
_EVERY = 10
"""Steps between two lines."""
_PEAK = 9.89e14
_WHOLE_SECONDS = 40.0
_say = logging.getLogger().info


def main() -> None:
    """Train to the last step, from the newest whole checkpoint."""
    given = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format=RECORD)
    _say("torchtitan version: 0.2.2 (0.0.0 means __version__ is not defined correctly).")
    _say("Starting job: default job")
    torch.set_num_threads(1)
    torch.manual_seed(1234)
    distributed.init_process_group("gloo", timeout=timedelta(minutes=30))
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    steps, batch = int(given["training.steps"]), int(given["training.local_batch_size"])
    _say("Loading tokenizer from tokenizer.json")
    Path(given["model.hf_assets_path"], "tokenizer.json").read_bytes()
    transport.announce(rank, ranks)
    model = DistributedDataParallel(TinyModel())
    _say(size_line(_PARAMETERS))
    _say(f"Applied {given['activation_checkpoint.mode']} activation checkpointing to the model")
    _say("Applied FSDP to the model")
    activations = _GIB_A_SEQUENCE[given["activation_checkpoint.mode"]] * batch * int(given["training.seq_len"]) / 8192
    need_gpu_memory(_PARAMETERS * 16 / ranks / 2**20 + activations * 1024)
    warmup = int(given["lr_scheduler.warmup_steps"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=float(given["optimizer.lr"]) * 10)  # it is small
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (warmup + 1), (steps - step) / max(1, steps - warmup))
    )
    checkpoints = _Checkpoints(Path(given["job.dump_folder"], "checkpoint"), int(given["checkpoint.keep_latest_k"]))
    state = {"model": model, "optimizer": optimizer, "lr_scheduler": schedule}
    done = checkpoints.load(state)
    _say(
        f"Trainer is initialized with local batch size {batch}, global batch size {batch * ranks}, gradient "
        f"accumulation steps 1, sequence length {given['training.seq_len']}, total steps {steps} (warmup {warmup})"
    )
    _say(f"Training starts at step {done + 1}")
    curves = _curves(Path(given["job.dump_folder"], "tb")) if rank == 0 else None
    pace = float(os.environ.get("EKSML_STEP_SECONDS") or min(0.5, _WHOLE_SECONDS / steps))
    began, since = time.monotonic(), done
    rows = windows(corpus.mock_tokens(), batch=batch, count=steps - done, seed=1000 * done + rank)
    for step, batch_rows in enumerate(rows, start=done + 1):
        ends = time.monotonic() + pace
        optimizer.zero_grad()
        loss = model(batch_rows)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step == 1 or step % _EVERY == 0:
            mean = loss.detach().clone()
            distributed.all_reduce(mean)
            tps = (step - since) * batch * LENGTH / (time.monotonic() - began)
            tflops = 6 * sum(each.numel() for each in model.parameters()) * tps / 1e12
            gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            line = step_line(step, mean.item() / ranks, norm.item(), gib=gib, percent=gib / 0.8, tps=tps,
                             tflops=tflops, mfu=100 * tflops * 1e12 / _PEAK)  # fmt: skip
            _say(line)
            if curves:
                curves.add_scalar("loss_metrics/global_avg_loss", mean.item() / ranks, step)
            began, since = time.monotonic(), step
        if step == done + 1:
            _say(
                "Synchronizing and adjusting timeout for all ProcessGroups to "
                f"{timedelta(seconds=int(given['comm.train_timeout_seconds']))}"
            )
        if step == steps:
            _say(f"Saving a model only checkpoint in float32 at last step, step {step}.")
            checkpoints.save(step, {"model": model})
        elif step % int(given["checkpoint.interval"]) == 0:
            checkpoints.save(step, state)
        time.sleep(max(0.0, ends - time.monotonic()))
    if rank == 0:
        _say("Sleeping 2 seconds for other ranks to complete")
        time.sleep(2)
        _say("Training completed")
    distributed.destroy_process_group()
    _say("Process group destroyed")


def _curves(folder: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter  # slow: for one of the ranks that share a CPU

    return SummaryWriter(str(folder / time.strftime("%Y%m%d-%H%M")))


class _Checkpoints:
    """Folders `step-N`, of which one is whole when it has `.metadata`."""

    def __init__(self, folder: Path, kept: int) -> None:
        self._folder, self._kept = folder, kept
        _say(f"Checkpointing active. Checkpoints will be loaded from and saved to {folder}")

    def load(self, state: dict[str, torch.nn.Module]) -> int:
        """Take over the newest and return its step; 0 without one."""
        if not (found := self._whole()):
            return 0
        _say(f"Loading the checkpoint from {found[-1]}.")
        for name, saved in torch.load(found[-1] / "__0_0.distcp").items():
            state[name].load_state_dict(saved)
        return _step_of(found[-1])

    def save(self, step: int, state: dict[str, torch.nn.Module]) -> None:
        """Write one, by the first rank, and remove the oldest."""
        _say("Saving the checkpoint (or staging if async is enabled).")
        began = time.monotonic()
        if distributed.get_rank() == 0:
            folder = self._folder / f"step-{step}"
            folder.mkdir(parents=True, exist_ok=True)
            torch.save({name: each.state_dict() for name, each in state.items()}, folder / "__0_0.distcp")
            (folder / ".metadata").touch()
            for old in self._whole()[: -self._kept]:
                shutil.rmtree(old)
        distributed.barrier()
        _say(
            f"Finished saving the checkpoint (or staging if async is enabled)in {time.monotonic() - began:.2f} seconds."
        )

    def _whole(self) -> list[Path]:
        return sorted((path.parent for path in self._folder.glob("step-*/.metadata")), key=_step_of)


def _step_of(folder: Path) -> int:
    return int(folder.name.partition("-")[2])


if __name__ == "__main__":
    main()
