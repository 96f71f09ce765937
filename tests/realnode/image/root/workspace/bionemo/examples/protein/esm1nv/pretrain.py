"""ESM-1nv's pre-training in small: reads the proteins of the CSV files, learns which amino acid comes next."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy
from eksml_cpu.memory import need_gpu_memory
from eksml_cpu.settings import Settings
from eksml_cpu.training import Cosine, Plan, fit, ranks, say

_ROWS = 400
"""That are read of each file."""
_MIB, _MIB_A_SAMPLE = 1310, 215.25
"""Memory of a GPU that the real model takes: 3032 MiB at a micro batch of 8."""


def main() -> None:
    """Train."""
    given = Settings()
    micro, steps = given.number("model.micro_batch_size", 8), given.number("trainer.max_steps", 1_000_000)
    accumulate = given.number("trainer.accumulate_grad_batches", 1)
    folder = given.text("model.data.dataset_path", "/fsx/processed")
    say("pretrain:41", f"Loading DATASET from {folder}")
    tokens = _proteins(Path(folder, "train"), given.text("model.data.dataset.train", "x_OP_000..049_CL_"))
    need_gpu_memory(_MIB + micro * _MIB_A_SAMPLE)
    fit(
        Plan(
            name="megatron_bert",
            folder=Path(given.text("exp_manager.exp_dir", "/fsx/results")),
            tokens=tokens,
            schedule=Cosine(
                peak=given.real("model.optim.lr", 2e-4),
                least=given.real("model.optim.sched.min_lr", 2e-5),
                warmup=given.number("model.optim.sched.warmup_steps", 500),
                constant=given.number("model.optim.sched.constant_steps", 50_000),
                steps=steps,
            ),
            global_batch=micro * ranks()[1] * accumulate,
            validate_every=given.number("trainer.val_check_interval", 500),
            validation_batches=given.number("trainer.limit_val_batches", 10),
            checkpoints={
                "filename": "megatron_bert--{val_loss:.2f}-{step}-{consumed_samples}",
                "monitor": "val_loss",
                "save_top_k": 10,
                "save_last": True,
                "verbose": True,
            },
        )
    )


def _proteins(folder: Path, pattern: str) -> numpy.ndarray:
    """Read the files that `x_OP_000..049_CL_` names; all of them must be there."""
    first, last = re.findall(r"\d{3}", pattern)
    found = []
    for number in range(int(first), int(last) + 1):
        with (folder / f"x{number:03d}.csv").open(encoding="utf-8", newline="") as file:
            found += [row["sequence"] for _, row in zip(range(_ROWS), csv.DictReader(file), strict=False)]
    return numpy.frombuffer("\n".join(found).encode(), numpy.uint8)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
