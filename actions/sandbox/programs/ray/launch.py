"""`launch.py` of the Ray blueprint, and the arguments of `ray_train_llama2.py`: from an entry point to its flags.

The script itself stands in a ConfigMap (`blueprints/llama2-trn1-ray/manifests/raycluster.yaml`); a test gives the same
files and arguments to it and to this module. The arguments are refused as the real program's argparse refuses them.

Source: awslabs/data-on-eks at 11f2e445, `ray_train_llama2.py` (`get_args`); aws-neuron/neuronx-distributed at 8520967,
`trainer/checkpoint.py` (a checkpoint is whole when its folder has a file `done`).
"""

from __future__ import annotations

import argparse
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from actions.sandbox.programs.files import FileView

LAUNCHER = "launch.py"
COMPILES = "--neuron_parallel_compile"
WHOLE = "done"
_CHECKPOINT = re.compile(r"step_([0-9]{1,12})")

_NUMBERS: dict[str, int] = {
    "batch_size": 1, "max_steps": 10_000, "steps_this_run": 10_000, "seed": 12_349, "warmup_steps": 100,
    "grad_accum_usteps": 32, "tensor_parallel_size": 8, "seq_len": 4096, "num_layers": -1, "logging_interval": 10,
    "kv_replicator": 1, "checkpoint_freq": 100_000, "loading_step": -1, "num_kept_checkpoint": -1, "num_nodes": 2,
}  # fmt: skip
_TEXTS: dict[str, str | None] = {
    "model_path": "/llama2_pretrain", "data_dir": "/shared/wikicorpus_llama2_7B_tokenized_4k",
    "output_dir": "/shared/llama2_output", "metrics_file": "results.json", "checkpoint_dir": None,
}  # fmt: skip
_TRUE_BY_DEFAULT = ("sequence_parallel_enabled", "selective_checkpoint_enabled")
_SWITCHES = (
    "print_grad_norm", "resume_ckpt", "use_mix_precision", "use_zero_1", "use_meta_device_init", "qkv_linear",
    "neuron_parallel_compile",
)  # fmt: skip


class LaunchedCommand(msgspec.Struct, frozen=True):
    """The outcome of the launcher: its output, and the command that it becomes."""

    text: str
    argv: tuple[str, ...] = ()
    """Empty: nothing is started, and the launcher ends with `code`."""
    code: int = 0


class ArgumentsRefused(Exception):
    """Raised for arguments that argparse does not take; its text is the usage and the error, as printed."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ArgumentsRefused(f"usage: {self.prog} [-h] …\n{self.prog}: error: {message}\n")


def parser() -> argparse.ArgumentParser:
    """Return a parser with the flags, types and defaults of `ray_train_llama2.py`."""
    made = _Parser(prog="ray_train_llama2.py")
    for name, number in _NUMBERS.items():
        made.add_argument(f"--{name}", type=int, default=number)
    for name, text in _TEXTS.items():
        made.add_argument(f"--{name}", type=str, default=text)
    for name in _TRUE_BY_DEFAULT:
        made.add_argument(f"--{name}", type=bool, default=True)
    made.add_argument("--lr", type=float, default=3e-4)
    for name in _SWITCHES:
        made.add_argument(f"--{name}", action="store_true")
    return made


def arguments_of(words: Sequence[str]) -> dict[str, Any]:
    """Return every flag's value.

    Raises:
        ArgumentsRefused: A flag is unknown, or a value is not of its type.
    """
    return vars(parser().parse_args(words))


def whole_checkpoints(files: FileView, folder: str) -> list[int]:
    """The steps of the checkpoints that were written to their end, the newest last."""
    found = []
    for name in files.names(folder):
        step, done = _CHECKPOINT.fullmatch(name), files.file(posixpath.join(folder, name, WHOLE))
        if step and done:
            found.append((done.changed_at, int(step[1])))
    return [step for _, step in sorted(found)]


def launch(words: Sequence[str], environment: Mapping[str, str], files: FileView) -> LaunchedCommand:
    """Return what `launch.py SCRIPT ARGUMENTS…` prints and starts on the head."""
    script, arguments = words[0], list(words[1:])
    command = ["python3", script, *arguments, *environment.get("LLAMA2_SWITCHES", "").split()]
    text = ""
    folder = _given(arguments, "--checkpoint_dir")
    if COMPILES not in command and folder:
        known, asked = whole_checkpoints(files, folder), int(_given(arguments, "--loading_step") or -1)
        if asked >= 0 and asked not in known:
            there = ", ".join(map(str, known)) or "none"
            problem = f"{folder} has no whole checkpoint of step {asked}; those there are: {there}"
            return LaunchedCommand(f"CheckpointError: {problem}\n", code=1)
        resumes = bool(known) and environment.get("LLAMA2_RESUME") != "never"
        step = asked if asked >= 0 else known[-1] if resumes else -1
        end, early = int(_given(arguments, "--max_steps")), int(_given(arguments, "--steps_this_run"))
        if 0 <= early < end:
            end = early
        else:
            command.append(f"--steps_this_run={end}")
        interval = int(_given(arguments, "--logging_interval") or 10)
        if end // interval == max(step, 0) // interval:
            command.append("--logging_interval=1")
        if step >= end:
            said = f"the checkpoint of step {step} in {folder} is the end of {end} steps"
            return LaunchedCommand(f"Nothing is left to train: {said}\n")
        text = f"Starting at step 0; checkpoints go to {folder}\n"
        if step >= 0:
            text = f"Resuming from the checkpoint of step {step} in {folder}\n"
            command += ["--resume_ckpt", f"--loading_step={step}"]
    return LaunchedCommand(f"{text}Running: {shlex.join(command)}\n", tuple(command))


def _given(arguments: Sequence[str], name: str) -> str:
    """The value of a flag that is written with `=`; the last one counts, as in argparse."""
    return next((word.partition("=")[2] for word in reversed(arguments) if word.startswith(f"{name}=")), "")
