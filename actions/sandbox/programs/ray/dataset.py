"""`get_dataset.py` of the Ray blueprint: Wikicorpus, tokenised and cut into blocks of one sequence length.

The sandbox's corpus is a sample: bars and files are as they should be, sizes and times are small.

Source: `docs/facts/llama2-ray.md#output` (what it prints), `docs/facts/llama2-ray.md#stages` (what it leaves); Hugging
Face datasets 2.19 and 4.0 (bars, refusal of scripts).
"""

from __future__ import annotations

import json

from actions.sandbox.programs.program import ContainerView, Program, ProgramStep
from actions.sandbox.programs.ray.head import RayHead, RayJob

ENTRY = "get_dataset.py"
FOLDER = "/shared/wikicorpus_llama2_7B_tokenized_4k"
_EXAMPLES = 1_359_146
_BLOCKS = 94_025
_SHARDS = 5
_FIRST_WITHOUT_SCRIPTS = 4


def prepare(container: ContainerView, _head: RayHead, job: RayJob) -> Program:
    """Download, tokenise, group, save. Ends with 1 where `datasets` does not run dataset scripts any more."""
    yield ProgramStep(3.0)
    if _datasets_version(job) >= _FIRST_WITHOUT_SCRIPTS:
        yield ProgramStep(1.0, _REFUSAL)
        return 1
    for name, size in (("builder script", "5.09k"), ("metadata", "3.02k"), ("readme", "7.75k")):
        yield ProgramStep(0.5, f"Downloading {name}: 100%|██████████| {size}/{size} [00:00<00:00, 21.3MB/s]\n")
    yield from _bar("Generating train split", _EXAMPLES, 6.0, " examples")
    yield from _bar("Running tokenizer on dataset", _EXAMPLES, 12.0, " examples")
    yield from _bar("Grouping texts in chunks of 4096", _EXAMPLES, 8.0, " examples")
    for shard in range(_SHARDS):
        done = (shard + 1) * _BLOCKS // _SHARDS
        drawn = _drawn(done, _BLOCKS, shard, " examples")
        yield ProgramStep(0.8, f"\rSaving the dataset ({shard + 1}/{_SHARDS} shards): {drawn}")
    _save(container, FOLDER, shards=_SHARDS)
    yield ProgramStep(0.5, f"\n{_BLOCKS}\n")
    return 0


def is_sample(container: ContainerView) -> bool:
    """Return whether this container makes up blocks in the corpus's place."""
    return "Dataset.from_generator" in container.command_line and "DATA_DIR" in container.environment


def make_up(container: ContainerView) -> Program:
    """Write blocks of made-up tokens, as `Dataset.save_to_disk` lays them out."""
    folder, blocks = container.environment["DATA_DIR"], int(container.environment.get("BLOCKS", "8192"))
    yield from _bar("Generating train split", blocks, 8.0, " examples")
    yield ProgramStep(1.0, f"\rSaving the dataset (1/1 shards): {_drawn(blocks, blocks, 1, ' examples')}\n")
    _save(container, folder, shards=1)
    return 0


def _save(container: ContainerView, folder: str, *, shards: int) -> None:
    for shard in range(shards):
        container.files.write(f"{folder}/data-{shard:05d}-of-{shards:05d}.arrow", b"", size_bytes=310_000_000)
    container.files.write(f"{folder}/dataset_info.json", json.dumps({"dataset_name": "wikicorpus"}).encode())
    container.files.write(f"{folder}/state.json", json.dumps({"_split": "train"}).encode())


def _bar(what: str, total: int, seconds: float, unit: str) -> Program:
    parts = 8
    for part in range(1, parts + 1):
        elapsed = round(seconds * part / parts)
        yield ProgramStep(seconds / parts, f"\r{what}: {_drawn(total * part // parts, total, elapsed, unit)}")
    yield ProgramStep(0.0, "\n")
    return 0


def _drawn(done: int, total: int, elapsed_seconds: int, unit: str) -> str:
    """A bar as tqdm draws it into a pipe."""
    share = done * 100 // total
    blocks = ("█" * (share // 10)).ljust(10)
    left = elapsed_seconds * (total - done) // max(1, done)
    pace = done / max(1, elapsed_seconds)
    times = f"{elapsed_seconds // 60:02d}:{elapsed_seconds % 60:02d}<{left // 60:02d}:{left % 60:02d}"
    return f"{share:3d}%|{blocks}| {done}/{total} [{times}, {pace:.2f}{unit or 'it'}/s]"


def _datasets_version(job: RayJob) -> int:
    """The major version of `datasets` that the runtime environment pins; the image's own is a 2.x."""
    asked = job.runtime_env.get("pip") or []
    packages = asked.get("packages") or [] if isinstance(asked, dict) else asked
    for package in packages:
        name, _, version = str(package).partition("==")
        if name.strip() == "datasets" and version.partition(".")[0].isdigit():
            return int(version.partition(".")[0])
    return 2


_REFUSAL = (
    "Traceback (most recent call last):\n"
    '  File "get_dataset.py", line 24, in <module>\n'
    "    raw_datasets = load_dataset(dataset_name, dataset_config_name)\n"
    '  File "/usr/local/lib/python3.10/site-packages/datasets/load.py", line 1392, in load_dataset\n'
    "    builder_instance = load_dataset_builder(\n"
    "RuntimeError: Dataset scripts are no longer supported, but found wikicorpus.py\n"
)
