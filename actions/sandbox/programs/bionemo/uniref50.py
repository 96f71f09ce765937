"""BioNeMo's preparation of UniRef50: download, extract, index, write the three splits.

The sandbox's UniRef50 is a sample: the phases come in the real order and with the real words, the sizes of the files
are a thousandth, and so is the time.

Source:
    Log of the data stage as the ai-on-eks guide shows it (BioNeMo 1.2); defaults of `prepare_dataset` from 1.10.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from actions.sandbox.programs.program import ContainerView, Program, ProgramStep

_URL = "https://ftp.uniprot.org/pub/databases/uniprot/uniref/uniref50/uniref50.fasta.gz"
_DOWNLOAD_SECONDS = 40.0
_EXTRACT_SECONDS = 25.0
_INDEX_SECONDS = 20.0
_WRITE_SECONDS = 0.6
"""For each file."""
_SPLITS = ("train", "val", "test")
_DEFAULT_FILES = 50


def is_wanted_by(container: ContainerView) -> bool:
    """Return whether this container's command prepares UniRef50."""
    return "uniref50" in container.command_line.lower()


def makes_sample(container: ContainerView) -> bool:
    """Return whether this container's command makes proteins up."""
    return "ROWS" in container.environment and "sample.py" in container.command_line


def make_sample(container: ContainerView) -> Program:
    """Made-up proteins in the files that the training reads."""
    root = container.environment.get("DATA_PATH", "/fsx")
    yield ProgramStep(2.0)
    for split in _SPLITS:
        folder, count = f"{root}/processed/{split}", _file_count(container)
        yield ProgramStep(
            0.5, f"Writing {count} files of {container.environment['ROWS']} made-up proteins to {folder}\n"
        )
        for index in range(count):
            yield ProgramStep(_WRITE_SECONDS)
            container.files.write(f"{folder}/x{index:03d}.csv", _sample_text(split, index), size_bytes=300_000)
    yield ProgramStep(0.2, "Sample complete\n")
    return 0


def _sample_text(split: str, index: int) -> bytes:
    return f"record_id,record_name,sequence_length,sequence\n0,made_up_{split}_{index}_0,8,MEEITQIK\n".encode()


def prepare(container: ContainerView) -> Program:
    """Print what the job prints and leave the files that it leaves. Ends with 0."""
    log = _NemoLog(container.started_at)
    root = _root(container)
    fasta = f"{root}/raw/uniref50.fasta"
    yield ProgramStep(4.0)
    yield log.line(
        4.0, 85, "Download and preprocess of UniRef50 data does not currently use GPU. Workstation GPU is not needed."
    )
    yield log.line(0.0, 90, "Data processing can take an hour or more depending on system resources.")
    yield from _fetch(container, log, fasta)
    yield log.line(0.0, 102, "UniRef50 data processing complete.")
    yield log.line(0.5, 105, "Indexing UniRef50 dataset.")
    yield ProgramStep(_INDEX_SECONDS)
    log.elapsed += _INDEX_SECONDS
    container.files.write(fasta + ".fxi", b"", size_bytes=5_800_000)
    yield from _write_splits(container, log, root)
    return 0


def _fetch(container: ContainerView, log: _NemoLog, fasta: str) -> Program:
    if container.files.file(fasta):
        yield log.line(0.5, 64, f"{fasta} already exists...")
        return 0
    yield log.line(0.0, 66, f"Downloading file from {_URL}...")
    yield log.line(0.5, 70, f"Downloading file to {fasta}.gz...")
    yield ProgramStep(_DOWNLOAD_SECONDS)
    log.elapsed += _DOWNLOAD_SECONDS
    container.files.write(f"{fasta}.gz", b"", size_bytes=12_100_000)
    yield log.line(0.0, 75, f"Extracting file to {fasta}...")
    yield ProgramStep(_EXTRACT_SECONDS)
    log.elapsed += _EXTRACT_SECONDS
    container.files.remove(f"{fasta}.gz")
    container.files.write(fasta, b">UniRef50_A0A5A9P0L4 peptidylprolyl isomerase\nMEEITQIK\n", size_bytes=27_400_000)
    return 0


def _write_splits(container: ContainerView, log: _NemoLog, root: str) -> Program:
    count = _file_count(container)
    yield log.line(0.5, 118, f"Writing processed dataset files to {root}/processed...")
    for split in _SPLITS:
        yield log.line(0.2, 126, f"Creating {split} split...")
        for index in range(count):
            yield ProgramStep(_WRITE_SECONDS)
            log.elapsed += _WRITE_SECONDS
            rows = "".join(f"{row},UniRef50_{split}{index:03d}{row},8,MEEITQIK\n" for row in range(3))
            container.files.write(
                f"{root}/processed/{split}/x{index:03d}.csv",
                f"record_id,record_name,sequence_length,sequence\n{rows}".encode(),
                size_bytes=540_000 if split == "train" else 9_000,
            )
    return 0


class _NemoLog:
    """NeMo's logger prefix, with the program's own time in it."""

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        self.elapsed = 0.0

    def line(self, after_seconds: float, source_line: int, text: str) -> ProgramStep:
        self.elapsed += after_seconds
        moment = datetime.fromtimestamp(self._started_at + self.elapsed, UTC)
        return ProgramStep(after_seconds, f"[NeMo I {moment:%Y-%m-%d %H:%M:%S} preprocess:{source_line}] {text}\n")


def _root(container: ContainerView) -> str:
    given = re.search(r"root_directory\s*=\s*['\"]([^'\"]+)", container.command_line)
    return (given.group(1) if given else container.environment.get("DATA_PATH", "/fsx")).rstrip("/")


def _file_count(container: ContainerView) -> int:
    """A number in the call of `prepare_dataset`, or in the environment that the call reads."""
    given = re.search(r"num_csv_files\s*=\s*(\d+)", container.command_line)
    text = given.group(1) if given else container.environment.get("NUM_CSV_FILES", "")
    return max(1, int(text)) if text.isdigit() else _DEFAULT_FILES
