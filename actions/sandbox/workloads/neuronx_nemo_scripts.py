"""The run's choices as neuronx-nemo-megatron's scripts on the shared file system hold them.

The sandbox's scripts have only the lines that a run changes; whoever starts the training reads them back from there.

Source: neuronx-nemo-megatron at f4743ce, `llama_7b.sh`, `test_llama.sh`, `train_setup.sh`: names and defaults.
"""

from __future__ import annotations

import re

import msgspec

from actions.sandbox.workloads.files import FileView

SOURCES = "/shared/neuronx-nemo-megatron"
SCRIPTS = f"{SOURCES}/nemo/examples/nlp/language_modeling"
PROCESSES_PER_NODE = 32
_HEAD = "#!/usr/bin/env bash\n"
_UNKNOWN = re.compile(r"^[\w./+-]+$")


class Choices(msgspec.Struct, frozen=True):
    """What the scripts are set to."""

    tokenizer: str = "/root/llamav2_weights/7b-hf"
    dataset: str = "/root/examples_datasets/llama_7b/book.jsonl-processed_text_document"
    learning_rate: float = 3e-4
    min_learning_rate: float = 3e-5
    warmup_steps: int = 2000
    seq_length: int = 4096
    tensor_parallel: int = 8
    pipeline_parallel: int = 1
    precision: str = "bf16SR"
    checkpoint_seconds: int = 36_000
    resumes: bool = False
    """Whether a run that finds checkpoints in its folder goes on from them."""


def write_scripts(files: FileView, choices: Choices) -> list[str]:
    """Put the scripts in place. Returns the changed lines, as a look at them shows."""
    test = [
        f": ${{TOKENIZER_PATH={choices.tokenizer}}}",
        f": ${{DATASET_PATH={choices.dataset}}}",
        f"    model.optim.lr={choices.learning_rate} \\",
        f"    model.optim.sched.min_lr={choices.min_learning_rate} \\",
        f"    +exp_manager.checkpoint_callback_params.train_time_interval={choices.checkpoint_seconds} \\",
        f"    exp_manager.resume_if_exists={choices.resumes} \\",
    ]
    model = [
        f"export SEQ_LENGTH={choices.seq_length}",
        f"export TP={choices.tensor_parallel}",
        f"export PP={choices.pipeline_parallel}",
        f"export WARMUP_STEPS={choices.warmup_steps}",
    ]
    for name, lines in (
        ("test_llama.sh", test),
        ("llama_7b.sh", [*model, "./test_llama.sh"]),
        ("train_setup.sh", [f'training_precision="{choices.precision}"']),
    ):
        files.write(f"{SCRIPTS}/{name}", (_HEAD + "\n".join(lines) + "\n").encode())
    return [*test[:4], *model]


def read_scripts(files: FileView) -> Choices | None:
    """The choices of the scripts that are there, `None` if there are none."""
    names = ("llama_7b.sh", "test_llama.sh", "train_setup.sh")
    found = [files.file(f"{SCRIPTS}/{name}") for name in names]
    if any(one is None for one in found):
        return None
    text = "".join(one.content.decode(errors="replace") for one in found if one is not None)
    default = Choices()
    return Choices(
        tokenizer=_value(text, r"TOKENIZER_PATH:?=([^}\s]+)", default.tokenizer),
        dataset=_value(text, r"DATASET_PATH:?=([^}\s]+)", default.dataset),
        learning_rate=float(_value(text, r"optim\.lr=(\S+)", str(default.learning_rate))),
        min_learning_rate=float(_value(text, r"min_lr=(\S+)", str(default.min_learning_rate))),
        warmup_steps=int(_value(text, r"WARMUP_STEPS=(\d+)", str(default.warmup_steps))),
        seq_length=int(_value(text, r"SEQ_LENGTH=(\d+)", str(default.seq_length))),
        tensor_parallel=int(_value(text, r"TP=(\d+)", str(default.tensor_parallel))),
        pipeline_parallel=int(_value(text, r"PP=(\d+)", str(default.pipeline_parallel))),
        precision=_value(text, r'training_precision="?([\w]+)', default.precision),
        checkpoint_seconds=int(_value(text, r"train_time_interval=(\d+)", str(default.checkpoint_seconds))),
        resumes=_value(text, r"resume_if_exists=(\w+)", "False").lower() == "true",
    )


def _value(text: str, expression: str, otherwise: str) -> str:
    found = re.search(expression, text)
    return found[1] if found and _UNKNOWN.match(found[1]) else otherwise
